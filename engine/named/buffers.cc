// buffers: see the header.
#include "engine/named/buffers.h"

#include <weft/memory.h>

#include <algorithm>
#include <bit>

namespace weft::named {
namespace {

constexpr std::size_t kLeastBytes = 4096;

}  // namespace

Buffers::~Buffers() {
  for (std::byte* const each : all_) deallocate(each);
}

Result<Buffers::Buffer> Buffers::take(std::size_t bytes) {
  const std::size_t rounded = std::bit_ceil(std::max(bytes, kLeastBytes));
  const auto size = static_cast<std::size_t>(std::countr_zero(rounded));
  if (free_.size() <= size) free_.resize(size + 1);
  if (std::vector<Buffer>& ready = free_[size]; !ready.empty()) {
    const Buffer buffer = ready.back();
    ready.pop_back();
    free_bytes_ -= buffer.bytes;
    return buffer;
  }
  WEFT_ASSIGN(void* memory, allocate(rounded));
  bytes_ += rounded;
  all_.insert(static_cast<std::byte*>(memory));
  return Buffer{static_cast<std::byte*>(memory), rounded};
}

void Buffers::give_back(Buffer buffer) {
  if (buffer.data == nullptr) return;
  if (free_bytes_ + buffer.bytes > kMostFreeBytes) {
    bytes_ -= buffer.bytes;
    all_.erase(buffer.data);
    deallocate(buffer.data);
    return;
  }
  free_bytes_ += buffer.bytes;
  free_[static_cast<std::size_t>(std::countr_zero(buffer.bytes))].push_back(buffer);
}

}  // namespace weft::named
