// control_group: what the memory limits of this process's control groups leave. The kernel kills a
// process that takes more, also in a system call, so the heap asks before it takes pages. Internal to
// the module.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace weft {

struct GroupMemory {
  // That the group may still take; the pages that the kernel keeps of files count as free.
  std::uint64_t free_bytes = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t limit_bytes = 0;
  std::string group;  // the folder of the group that leaves the least; empty: none has a limit
};

// Versions 1 and 2, this process's group and those above it. `root` stands before the paths of /proc
// and of the mounts. Some tens of microseconds.
[[nodiscard]] GroupMemory group_memory(const std::string& root = "");

}  // namespace weft
