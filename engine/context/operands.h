// operands: the checks of memory, counts and types that the calls share. Internal to the module.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/execute/execute.h"
#include "engine/request/request.h"

namespace weft {

[[nodiscard]] Status invalid(std::string text);

// Checks that the types are equal, that no needed pointer is null, and that input and output do not
// overlap without being the same. An empty one overlaps nothing.
Status check_memory(std::string_view what, const Input& x, const Output& y);
[[nodiscard]] bool is_in_place(const Input& x, const Output& y);
// check_memory(), and both counts must be equal. check_same_count() first makes a fast test that
// passes for most calls; why_not_same_count() makes the full one and says what is wrong.
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

// Checks the memory of an operation in which input or output is this rank's block `own` of the
// other. They must not overlap, or the smaller one must be exactly that block (in place). Returns
// whether they are in place.
Result<bool> check_part(std::string_view what, const Input& x, const Output& y, const Range& own);

// Appends `number` ranges to `parts`, one after another: of `counts` elements, or of `each`
// elements if `counts` is empty.
Status lay_out(std::string_view what, std::vector<Range>& parts, DataType type, std::size_t number,
               std::span<const std::size_t> counts, std::size_t each);
// The sum of the elements of parts that lay_out() made; at least one part.
[[nodiscard]] inline std::size_t end_of(const std::vector<Range>& parts) {
  return parts.back().offset + parts.back().count;
}

// The weights of a request; if it has none, weights that give nothing.
[[nodiscard]] inline const NeighborWeights& weights_of(const Request& request) {
  static constexpr NeighborWeights kNone;
  return request.weights == nullptr ? kNone : *request.weights;
}

// The type must be floating, because a weighted sum of integers has no meaning.
Status check_weighted(std::string_view what, DataType type);
void bind_operands(Call& call, Collective collective, const Input& x, const Output& y);

}  // namespace weft
