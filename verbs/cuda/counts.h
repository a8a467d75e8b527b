// counts: what gpu_counts() reads. Internal to the module.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::cuda {

struct Counts {
  std::atomic<std::uint64_t> copies_out{0}, copies_in{0}, bytes_out{0}, bytes_in{0},
      bytes_inside{0}, launches{0}, pinned_bytes{0};
};
[[nodiscard]] Counts& counts();

// How many gates may hold a stream. The driver waits for all streams when it frees, unpins or unmaps
// memory, and makes whoever pins or allocates memory wait while another thread copies pageable memory
// behind a stream that is held. So nobody does that while there is a gate, if it can be helped:
// whoever waited could be who has to open it.
[[nodiscard]] std::atomic<int>& closed_gates();

}  // namespace weft::cuda
