// structs: see the header. Structs have no padding and grow by whole words, so a smaller one never
// ends inside a member.
#include "bindings/c/structs.h"

namespace weft::c {
namespace {

// No version of a struct comes near it, so a larger size is garbage, which must not be read.
constexpr std::size_t kLargestStruct = 4096;

// The size that the caller's struct says it has.
Result<std::size_t> size_of_struct(const void* from, const char* argument) {
  WEFT_RETURN_IF_ERROR(check_not_null(from, argument));
  std::size_t size = 0;
  std::memcpy(&size, from, sizeof(size));
  const std::string member = std::string(argument) + "->size";
  if (size == 0) return argument_error(member, "is 0; set it to the sizeof of the struct");
  if (size > kLargestStruct || size % sizeof(size) != 0)
    return argument_error(member, "is " + std::to_string(size) + ", which no version has");
  return size;
}

bool is_zero(const std::byte* from, const std::byte* to) {
  return std::all_of(from, to, [](std::byte value) { return value == std::byte{0}; });
}

}  // namespace

Status read_struct(const void* from, const char* argument, void* known, std::size_t size) {
  WEFT_ASSIGN(const std::size_t given, size_of_struct(from, argument));
  const auto* bytes = static_cast<const std::byte*>(from);
  if (given > size && !is_zero(bytes + size, bytes + given)) {
    return argument_error(argument,
                          "is of a newer version and asks for what this one does not know (Weft " +
                              std::string(weft_version()) + ")");
  }
  const std::size_t common = std::min(given, size);
  std::memcpy(known, from, common);
  std::memset(static_cast<std::byte*>(known) + common, 0, size - common);
  return {};
}

Status write_struct(const void* known, std::size_t size, const char* argument, void* to) {
  WEFT_ASSIGN(const std::size_t given, size_of_struct(to, argument));
  constexpr std::size_t kStart = sizeof(std::size_t);
  const std::size_t common = std::min(given, size);
  auto* bytes = static_cast<std::byte*>(to);
  std::memcpy(bytes + kStart, static_cast<const std::byte*>(known) + kStart, common - kStart);
  std::memset(bytes + common, 0, given - common);
  return {};
}

}  // namespace weft::c
