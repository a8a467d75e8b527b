// words: 8 aligned bytes that a rank and its peers, or their devices, read and write at the same time.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::one_sided {

[[nodiscard]] inline std::uint64_t load_word(const void* word) {
  auto& place = *static_cast<std::uint64_t*>(const_cast<void*>(word));
  return std::atomic_ref<std::uint64_t>(place).load(std::memory_order_acquire);
}
inline void store_word(void* word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(*static_cast<std::uint64_t*>(word))
      .store(value, std::memory_order_release);
}

}  // namespace weft::one_sided
