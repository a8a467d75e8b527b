// A fresh process whose heap has the options that a test wants: the heap is one per process and
// made once.
#pragma once

#include <functional>
#include <stdexcept>
#include <utility>

#include "tests/memory/fresh_process.h"
#include "verbs/memory/memory.h"

namespace weft {

// The block, or an exception that fails the test.
inline std::byte* take(std::size_t bytes) {
  Result<void*> taken = allocate(bytes);
  if (!taken.ok()) throw std::runtime_error(taken.status().to_string());
  return static_cast<std::byte*>(taken.value());
}

inline void with_heap(const HeapOptions& options, const std::function<void()>& body) {
  in_fresh_process([&] {
    const Status status = configure_heap(options);
    ASSERT_TRUE(status.ok()) << status.to_string();
    body();
  });
}

inline HeapOptions heap_of_mib(std::size_t mib) {
  HeapOptions options;
  options.address_bytes = mib << 20;
  return options;
}

}  // namespace weft
