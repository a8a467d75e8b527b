// operands: see the header.
#include "engine/context/operands.h"

#include <fmt/core.h>

namespace weft {
namespace {

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a);
  const auto y = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes != 0 && b_bytes != 0 && x < y + b_bytes && y < x + a_bytes;
}

bool overlap(const Input& x, const Output& y) {
  const std::size_t size = size_of(x.type);
  return overlap(x.data, x.count * size, y.data, y.count * size);
}

Status check_count(std::string_view what, std::string_view which, std::size_t count,
                   DataType type) {
  if (is_count_of_memory(count, type)) return {};
  return invalid(
      fmt::format("{}: the {} cannot have {} elements of {}", what, which, count, name(type)));
}

Status check_pointers(std::string_view what, const Input& x, const Output& y) {
  if (x.type != y.type)
    return invalid(
        fmt::format("{}: the input is {}, the output {}", what, name(x.type), name(y.type)));
  WEFT_RETURN_IF_ERROR(check_count(what, "input", x.count, x.type));
  WEFT_RETURN_IF_ERROR(check_count(what, "output", y.count, y.type));
  if (x.count != 0 && x.data == nullptr) return invalid(fmt::format("{}: the input is null", what));
  if (y.count != 0 && y.data == nullptr)
    return invalid(fmt::format("{}: the output is null", what));
  return {};
}

}  // namespace

Status invalid(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

Status check_memory(std::string_view what, const Input& x, const Output& y) {
  WEFT_RETURN_IF_ERROR(check_pointers(what, x, y));
  if (x.data != y.data && overlap(x, y)) {
    return invalid(fmt::format("{}: input and output overlap without being the same", what));
  }
  return {};
}

Status why_not_same_count(std::string_view what, const Input& x, const Output& y) {
  WEFT_RETURN_IF_ERROR(check_memory(what, x, y));
  if (x.count == y.count) return {};
  return invalid(
      fmt::format("{}: the input has {} elements, the output {}", what, x.count, y.count));
}

bool is_in_place(const Input& x, const Output& y) {
  return x.data == y.data && x.count != 0 && y.count != 0;
}

Result<bool> check_part(std::string_view what, const Input& x, const Output& y, const Range& own) {
  WEFT_RETURN_IF_ERROR(check_pointers(what, x, y));
  if (!overlap(x, y)) return false;
  const std::size_t offset = own.offset * size_of(x.type);
  const auto* input = static_cast<const std::byte*>(x.data);
  const auto* output = static_cast<const std::byte*>(y.data);
  if (x.count < y.count ? input == output + offset : output == input + offset) return true;
  return invalid(fmt::format(
      "{}: input and output overlap; in place, the smaller is this rank's block of the larger, at "
      "element {}",
      what, own.offset));
}

Status lay_out(std::string_view what, std::vector<Range>& parts, DataType type, std::size_t number,
               std::span<const std::size_t> counts, std::size_t each) {
  std::size_t offset = 0;
  for (std::size_t part = 0; part < number; ++part) {
    const std::size_t count = counts.empty() ? each : counts[part];
    WEFT_RETURN_IF_ERROR(check_count(what, "part of a rank", count, type));
    parts.push_back({offset, count});
    offset += count;
    WEFT_RETURN_IF_ERROR(check_count(what, "ranks' parts together", offset, type));
  }
  return {};
}

Status check_weighted(std::string_view what, DataType type) {
  if (is_floating(type)) return {};
  return invalid(fmt::format("{}: weighted sums of {} have no meaning; use a floating type", what,
                             name(type)));
}

void bind_operands(Call& call, Collective collective, const Input& x, const Output& y) {
  call.collective = collective;
  call.type = y.type;
  call.input = x.data;
  call.input_count = x.count;
  call.output = y.data;
  call.output_count = y.count;
}

}  // namespace weft
