// hardware: what this machine is made of, as values: processors, caches, memory, huge pages. Read
// once from hwloc and /proc; nothing here is kept open, and any thread may call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct CacheLevel {
  int level = 1;
  std::uint64_t bytes = 0;  // of one
  int count = 0;            // how many the machine has; instruction caches are left out
  int cores_each = 0;       // that share one
};

struct NumaNode {
  int index = 0;
  std::uint64_t bytes = 0;
  int cores = 0;
};

struct HugePageState {
  std::uint64_t page_bytes = 0;  // of hugetlbfs's default size
  int reserved = 0;
  int free = 0;
  std::string anonymous;  // transparent: always, madvise, never; empty where the kernel has none
  std::string shared;     // the same for shared memory: also within_size, advise, deny, force
};

struct Machine {
  std::string cpu;  // model name
  int packages = 0;
  int cores = 0;
  int threads = 0;  // hardware threads that may be used
  std::vector<CacheLevel> caches;
  std::vector<NumaNode> nodes;
  std::uint64_t memory_bytes = 0;
  HugePageState huge_pages;
};

[[nodiscard]] Result<Machine> discover_machine();

}  // namespace weft
