// space: see the header.
#include "verbs/memory/space.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <limits>
#include <string>

namespace weft {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

Status cannot_map(std::string_view whose, std::uint64_t bytes, int error) {
  std::string why;
  if (const std::uint64_t left = free_address_space(); left != kNoLimit)
    why = fmt::format(" (the limit of address space, ulimit -v, leaves {} MiB)", left >> 20);
  return system_error(
      fmt::format("mapping the shared heap of {}, {} MiB as WEFT_HEAP_MIB sets it{}", whose,
                  bytes >> 20, why),
      error);
}

}  // namespace

std::uint64_t free_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const std::uint64_t taken = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur > taken ? limit.rlim_cur - taken : 0;
}

std::uint64_t most_file_bytes() {
  rlimit limit{};
  const bool is_limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? limit.rlim_cur : kNoLimit;
}

Result<std::byte*> map_aligned(int file, std::uint64_t bytes, std::string_view whose) {
  void* reserved = mmap(nullptr, bytes + kHugePage, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return cannot_map(whose, bytes, errno);
  const auto start = reinterpret_cast<std::uintptr_t>(reserved);
  const std::uintptr_t aligned = (start + kHugePage - 1) & ~(kHugePage - 1);
  // The slack around the aligned part goes back at once, so that unmapping needs only the part
  // itself.
  if (aligned != start) munmap(reserved, aligned - start);
  munmap(reinterpret_cast<void*>(aligned + bytes), start + kHugePage - aligned);
  void* mapped = mmap(reinterpret_cast<void*>(aligned), bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    munmap(reinterpret_cast<void*>(aligned), bytes);
    return cannot_map(whose, bytes, error);
  }
  return static_cast<std::byte*>(mapped);
}

}  // namespace weft
