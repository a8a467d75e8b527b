// Time beyond the public Deadline (weft/deadline.h).
#pragma once

#include <weft/deadline.h>

#include <cstdint>

namespace weft {

// CPU nanoseconds that the calling process has used, all threads.
[[nodiscard]] std::int64_t process_cpu_ns();

}  // namespace weft
