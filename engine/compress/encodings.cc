// encodings: memory that is taken again and again.

#include <algorithm>
#include <utility>

#include "engine/compress/compress.h"

namespace weft {

Result<Memory> Encodings::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(free_, [bytes](const Memory& each) {
    return each.bytes() >= bytes && each.bytes() / 2 <= bytes;
  });
  if (found == free_.end()) return Memory::allocate(bytes);
  Memory memory = std::move(*found);
  free_.erase(found);
  return memory;
}

void Encodings::give(Memory memory) {
  const std::lock_guard lock(mutex_);
  if (free_.size() == kMostFree) free_.erase(free_.begin());
  free_.push_back(std::move(memory));
}

void Encodings::encode(const Encoding& how, std::span<const float> values,
                       std::span<std::byte> into, std::span<float> residual) {
  const std::lock_guard lock(encoder_mutex_);
  encoder_.encode(how, values, into, residual);
}

Result<Memory> Encodings::encode(const Encoding& how, std::span<const float> values,
                                 std::span<float> residual) {
  const std::size_t bytes = encoded_bytes(how, values.size());
  WEFT_ASSIGN(Memory memory, take(bytes));
  encode(how, values, {memory.as<std::byte>(), bytes}, residual);
  return memory;
}

}  // namespace weft
