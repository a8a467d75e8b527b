// request: a weft_request as the C++ API takes it.
#pragma once

#include <weft/c/types.h>
#include <weft/feedback.h>
#include <weft/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bindings/c/call.h"

namespace weft::c {

// A Request, and what it points to. It stays where it is.
struct Converted {
  Converted() = default;
  Converted(const Converted&) = delete;
  Converted& operator=(const Converted&) = delete;

  Request request;
  NeighborWeights weights;
  std::vector<NeighborWeight> sources, destinations;
  std::optional<ErrorFeedback> feedback;
};

// Checks what C cannot: numbers of operations, types and operators, and pointers to arrays. Members
// that the operation does not use are not read.
Status convert(const weft_request& from, Converted& to);

// Parts of it, for other calls. A number from 0 to `most`; `what` says what it is not.
Status check_number(const char* member, std::int32_t value, std::int32_t most, const char* what);
Status check_type(weft_data_type type);
Status check_compression(const char* member, weft_compression value);
Status check_flag(const char* member, std::int32_t value);  // 0 or 1
inline std::optional<Stream> stream_of(const weft_stream* given) {
  return given == nullptr ? std::nullopt : std::optional(Stream{given->handle});
}
// `kept` := the weights, and `to` := a view of them; absent for a null array.
Status convert_peers(const weft_peer* from, std::size_t count, const char* argument,
                     std::vector<NeighborWeight>& kept,
                     std::optional<std::span<const NeighborWeight>>& to);

}  // namespace weft::c
