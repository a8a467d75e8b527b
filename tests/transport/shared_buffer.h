// SharedBuffer: a piece of the shared heap for one test, given back at its end.
#pragma once

#include <cstddef>
#include <span>

#include "tests/transport/group.h"
#include "verbs/memory/memory.h"

namespace weft {

class SharedBuffer {
 public:
  explicit SharedBuffer(std::size_t bytes) : pointer_(must(allocate(bytes))), bytes_(bytes) {}
  ~SharedBuffer() { deallocate(pointer_); }
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(pointer_), bytes_};
  }

 private:
  void* pointer_;
  std::size_t bytes_;
};

}  // namespace weft
