// figures: what the machine's memory, caches and kernel do alone. Printed beside every measurement,
// because a virtual machine's cores are near each other in one minute and far in the next.
//
// Each call runs its own threads on the given cores for a few milliseconds and returns a median.
// Nothing else should run meanwhile. A core that may not be used leaves the threads where they are.
// Where threads cannot be started, a figure that needs two of them is 0.
#pragma once

#include <cstddef>

#include "verbs/base/base.h"

namespace weft {

// The two cores that figures between cores use. Equal on a machine with one core.
struct CorePair {
  int first = 0;
  int second = 1;
};
[[nodiscard]] CorePair first_cores();

// One way of a cache line that two threads write in turn. 0 on one core, where nothing bounces.
[[nodiscard]] double ping_pong_ns(CorePair cores);
// From one thread to the other and back by sched_yield, both on one core; one way.
[[nodiscard]] double yield_us(int core);
// From a FUTEX_WAKE on one core until the sleeper on the other runs.
[[nodiscard]] double futex_wake_us(CorePair cores);
// Bytes copied per nanosecond, one core, both buffers written before.
[[nodiscard]] double memcpy_gbps(std::size_t bytes);
// The same by process_vm_readv; no_permission where the kernel refuses it.
[[nodiscard]] Result<double> readv_gbps(std::size_t bytes);

}  // namespace weft
