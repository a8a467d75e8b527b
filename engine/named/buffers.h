// buffers: memory for fused messages, taken again and again.
// Internal to the module.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_set>
#include <vector>

#include "verbs/base/base.h"

namespace weft::named {

// Belongs to the holder of the lane's token.
class Buffers {
 public:
  // Memory of weft::allocate(), which peers of this machine read in place. A value, which must be
  // given back.
  struct Buffer {
    std::byte* data = nullptr;
    std::size_t bytes = 0;  // at least as many as were asked for
  };

  Buffers() = default;
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // One that is never given back is freed with this object.
  [[nodiscard]] Result<Buffer> take(std::size_t bytes);
  void give_back(Buffer buffer);
  // In use and free.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  // Free buffers beyond these are freed.
  static constexpr std::size_t kMostFreeBytes = std::size_t{256} << 20;

  std::vector<std::vector<Buffer>> free_;  // by the logarithm of their sizes
  std::unordered_set<std::byte*> all_;
  std::size_t free_bytes_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace weft::named
