// operands: what all calls check about their memory and operators. Internal to the module.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/execute/execute.h"
#include "engine/request/request.h"

namespace weft {

[[nodiscard]] Status invalid(std::string text);

// Types and pointers are right, and input and output are apart or the very same memory; anything
// between has no meaning.
Status check_memory(std::string_view what, const Input& x, const Output& y);
[[nodiscard]] bool is_in_place(const Input& x, const Output& y);
// And of one size. What is wrong, if anything is, takes longer to find out.
[[nodiscard]] Status why_not_same_count(std::string_view what, const Input& x, const Output& y);
inline Status check_same_count(std::string_view what, const Input& x, const Output& y) {
  const auto from = reinterpret_cast<std::uintptr_t>(x.data);
  const auto to = reinterpret_cast<std::uintptr_t>(y.data);
  const std::size_t bytes = x.count * size_of(x.type);
  constexpr std::size_t kAnyType = std::size_t{1} << 60;  // whatever the type, no overflow
  const bool is_right = x.type == y.type && x.count == y.count && x.count < kAnyType && from != 0 &&
                        to != 0 && (from == to || from + bytes <= to || to + bytes <= from);
  return is_right ? Status() : why_not_same_count(what, x, y);
}

// The same for an operation whose input is a rank's block of the output, or whose output is its
// block of the input: apart, or in that very place. True: in place.
Result<bool> check_part(std::string_view what, const Input& x, const Output& y, const Range& own);

// Parts one after another, `parts` of them: as counted, or of `each` elements where nothing is counted.
Status lay_out(std::string_view what, std::vector<Range>& parts, DataType type, std::size_t number,
               std::span<const std::size_t> counts, std::size_t each);
// The elements of parts that lie one after another; at least one part.
[[nodiscard]] inline std::size_t end_of(const std::vector<Range>& parts) {
  return parts.back().offset + parts.back().count;
}

// The weights of a request; none where it has none.
[[nodiscard]] inline const NeighborWeights& weights_of(const Request& request) {
  static constexpr NeighborWeights kNone;
  return request.weights == nullptr ? kNone : *request.weights;
}

// Weights that are no numbers have no meaning, and neither have weights of integers.
Status check_weight(std::string_view what, double weight, Rank rank);
Status check_weighted(std::string_view what, DataType type);
// Push-sum keeps the sum over all: what one of them ("rank", "machine") sends and keeps is what it
// had.
Status check_push_sum(std::string_view what, const NeighborWeights& weights, std::string_view who,
                      Rank number);

void bind_operands(Call& call, Collective collective, const Input& x, const Output& y);

}  // namespace weft
