// A heap where the system gives less than usual: limits of address space, filters of system calls.
#include <sys/resource.h>
#include <sys/syscall.h>

#include "tests/base/sanitized.h"
#include "tests/memory/forbid.h"
#include "tests/memory/fresh_heap.h"
#include "verbs/memory/space.h"

namespace weft {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// Leaves this process so many more bytes of address space than it has.
void limit_address_space(std::uint64_t bytes) {
  ASSERT_EQ(free_address_space(), ~std::uint64_t{0}) << "limited already";
  const rlimit first{std::uint64_t{1} << 46, RLIM_INFINITY};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &first), 0);
  const rlimit limit{first.rlim_cur - free_address_space() + bytes, RLIM_INFINITY};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

void expect_named(const Status& status, const char* text) {
  EXPECT_EQ(status.code(), Code::exhausted) << status.to_string();
  EXPECT_NE(status.text().find(text), std::string_view::npos) << status.to_string();
}

TEST(Limits, OfAddressSpaceMakeTheHeapSmallerAndLeaveRoomForPeers) {
  if (kHasThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer maps memory as it runs";
  for (const int processes : {1, 4}) {
    in_fresh_process([processes] {
      limit_address_space(2 * kGiB);
      HeapOptions options;
      options.processes = processes;
      ASSERT_TRUE(configure_heap(options).ok());
      EXPECT_NE(take(1 << 20), nullptr);
      const std::uint64_t bytes = heap_identity()->bytes;
      EXPECT_LE(bytes * static_cast<std::uint64_t>(processes), kGiB);
      EXPECT_GE(bytes, std::uint64_t{64} << 20);
      const Status status = allocate(bytes).status();
      expect_named(status, "WEFT_HEAP_MIB");
    });
  }
}

TEST(Limits, BelowTheLeastHeapAreAnErrorThatNamesThemAndTheSetting) {
  if (kHasThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer maps memory as it runs";
  in_fresh_process([] {
    limit_address_space(std::uint64_t{40} << 20);
    const Status status = allocate(1).status();
    expect_named(status, "WEFT_HEAP_MIB");
    expect_named(status, "ulimit -v");
  });
}

TEST(Limits, OfAddressSpaceBelowWhatWasAskedForAreAnErrorThatNamesTheSetting) {
  if (kHasThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer maps memory as it runs";
  with_heap(heap_of_mib(4096), [] {
    limit_address_space(2 * kGiB);
    expect_named(allocate(1).status(), "WEFT_HEAP_MIB");
  });
}

TEST(Limits, AForbiddenMemfdIsReplacedByAFileWithoutAName) {
  with_heap(heap_of_mib(8), [] {
    const long calls[] = {SYS_memfd_create};
    if (!forbid(calls)) GTEST_SKIP() << "no filters of system calls here";
    EXPECT_NE(take(1000), nullptr);
    EXPECT_EQ(heap_usage().backing, "/dev/shm");
  });
}

}  // namespace
}  // namespace weft
