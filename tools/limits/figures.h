// figures: the speed of the machine's memory, caches and kernel alone. Tools print these figures
// beside every measurement, because the cores of a virtual machine may be near each other in one
// minute and far from each other in the next.
//
// Each call runs threads of its own on the given cores for a few milliseconds and returns a median.
// Nothing else should run meanwhile. If a core may not be used, the thread stays where it is. Where
// threads cannot be started, a figure that needs two of them is 0.
#pragma once

#include <cstddef>

#include "verbs/base/base.h"

namespace weft {

// The two cores for the figures between cores. They are equal on a machine with one core.
struct CorePair {
  int first = 0;
  int second = 1;
};
[[nodiscard]] CorePair first_cores();

// Time for a cache line, which two threads write in turn, to move from one core to the other. 0 on
// one core.
[[nodiscard]] double ping_pong_ns(CorePair cores);
// Time to switch from one thread to another by sched_yield, both on one core: half of a round trip.
[[nodiscard]] double yield_us(int core);
// Time from a FUTEX_WAKE on one core until the sleeper on the other core runs.
[[nodiscard]] double futex_wake_us(CorePair cores);
// Bytes copied per nanosecond by one core. Both buffers were written before.
[[nodiscard]] double memcpy_gbps(std::size_t bytes);
// Bytes of terms read per nanosecond by the combine loop of the engine: each thread adds two terms of
// `bytes` of 32-bit floats, weighted, into a third array. With `threads` 2 the sum of two threads,
// each on a core of its own; 0 where there is one core.
[[nodiscard]] double combine_gbps(CorePair cores, int threads, std::size_t bytes);
// Bytes read per nanosecond by process_vm_readv. no_permission if the kernel refuses it.
[[nodiscard]] Result<double> readv_gbps(std::size_t bytes);

}  // namespace weft
