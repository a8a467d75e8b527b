// counts: what gpu_counts() reads. Internal to the module.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::cuda {

struct Counts {
  std::atomic<std::uint64_t> copies_out{0}, copies_in{0}, bytes_out{0}, bytes_in{0}, launches{0},
      pinned_bytes{0};
};
[[nodiscard]] Counts& counts();

}  // namespace weft::cuda
