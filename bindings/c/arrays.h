// arrays: arrays that are copied into the caller's memory.
#pragma once

#include <weft/c/graph.h>
#include <weft/graph.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "bindings/c/call.h"

namespace weft::c {

inline weft_peer shown(const Peer& peer) {
  return {peer.rank, peer.weight};
}
inline weft_edge shown(const Edge& edge) {
  return {edge.from, edge.to, edge.weight};
}

inline std::int32_t shown(Rank rank) {
  return rank;
}
inline float shown(float value) {
  return value;
}
inline std::uint64_t shown(std::uint64_t number) {
  return number;
}
inline const char* shown(const std::string& text) {
  return text.c_str();
}

// *count := the number of values, which are copied to `to`. Without memory they are only counted.
template <typename Value, typename Shown>
Status give_array(std::span<const Value> values, const char* argument, Shown* to,
                  std::size_t capacity, std::size_t* count) {
  *count = values.size();
  if (to == nullptr && capacity == 0) return {};
  WEFT_RETURN_IF_ERROR(check_not_null(to, argument));
  if (capacity < values.size()) {
    return argument_error(argument, "has room for " + std::to_string(capacity) + " of " +
                                        std::to_string(values.size()) + " elements");
  }
  std::transform(values.begin(), values.end(), to, [](const Value& value) { return shown(value); });
  return {};
}

// An array that the caller gives: it may be NULL only if its length is 0, and a job has no more
// than kMostRanks of anything that is counted by rank.
template <typename Value>
Status check_array(const Value* array, std::size_t length, const char* argument) {
  if (length == 0) return {};
  WEFT_RETURN_IF_ERROR(check_not_null(array, argument));
  if (length <= static_cast<std::size_t>(kMostRanks)) return {};
  return argument_error(argument, "has " + std::to_string(length) +
                                      " elements; a job has at most " + std::to_string(kMostRanks) +
                                      " ranks");
}

inline Status check_rank(Rank rank, int size, const char* argument) {
  if (rank >= 0 && rank < size) return {};
  return argument_error(
      argument, "is " + std::to_string(rank) + ", which is outside 0…" + std::to_string(size - 1));
}

}  // namespace weft::c
