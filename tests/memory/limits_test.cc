// A heap where the system gives less than usual: limits of address space, of files
// and of control groups, filters of system calls.
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/base/sanitized.h"
#include "tests/memory/forbid.h"
#include "tests/memory/fresh_heap.h"
#include "verbs/memory/control_group.h"
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

void expect_named(const Status& status, std::string_view text) {
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

void limit_file_size(std::uint64_t bytes) {
  const rlimit limit{bytes, RLIM_INFINITY};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(Limits, OfFileSizesMakeTheHeapSmaller) {
  in_fresh_process([] {
    limit_file_size(std::uint64_t{101} << 20);
    EXPECT_NE(take(1 << 20), nullptr);
    EXPECT_EQ(heap_identity()->bytes, std::uint64_t{100} << 20);
    expect_named(allocate(std::size_t{101} << 20).status(), "WEFT_HEAP_MIB");
  });
}

// The signal of the kernel would end the process.
TEST(Limits, OfFileSizesBelowWhatIsNeededAreAnErrorThatNamesThem) {
  for (const std::size_t asked_mib : {0, 128}) {
    with_heap(heap_of_mib(asked_mib), [] {
      limit_file_size(std::uint64_t{1} << 20);
      expect_named(allocate(1).status(), "ulimit -f is 1024 KiB");
    });
  }
}

// A folder that looks like the root of a machine.
class Groups : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  ~Groups() override { std::filesystem::remove_all(root_); }

  std::string folder_ = (std::filesystem::temp_directory_path() / "weft-groups-XXXXXX").string();
  const std::string root_ = mkdtemp(folder_.data());
};

TEST_F(Groups, OfTheSecondVersionCountThoseAbove) {
  write("/proc/self/cgroup", "1:name=systemd:/x\n0::/job/rank\n");
  write("/proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");
  EXPECT_TRUE(group_memory(root_).group.empty());
  const std::string job = "/sys/fs/cgroup/job";
  write(job + "/rank/memory.max", "max\n");
  write(job + "/memory.max", "1000\n");
  write(job + "/memory.current", "700\n");
  write(job + "/memory.stat", "anon 400\nfile 300\ninactive_file 60\nactive_file 40\n");
  const GroupMemory found = group_memory(root_);
  EXPECT_EQ(found.group, root_ + job);
  EXPECT_EQ(found.limit_bytes, 1000U);
  EXPECT_EQ(found.free_bytes, 400U);
}

TEST_F(Groups, OfTheFirstVersionAreFoundInsideAContainer) {
  write("/proc/self/cgroup", "4:cpu,cpuacct:/c\n3:memory:/docker/abc/job\n0::/\n");
  write("/proc/self/mountinfo",
        "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  const std::string memory = "/sys/fs/cgroup/memory";
  write(memory + "/memory.limit_in_bytes", "9223372036854771712\n");
  write(memory + "/job/memory.limit_in_bytes", "1000\n");
  write(memory + "/job/memory.usage_in_bytes", "1200\n");
  write(memory + "/job/memory.stat", "active_file 500\ntotal_active_file 100\n");
  EXPECT_EQ(group_memory(root_).free_bytes, 0U);
  write(memory + "/job/memory.usage_in_bytes", "300\n");
  EXPECT_EQ(group_memory(root_).free_bytes, 800U);
}

TEST_F(Groups, ThatCannotBeReadLimitNothing) {
  EXPECT_TRUE(group_memory(root_).group.empty());
  write("/proc/self/cgroup", "0::/a\n");
  write("/proc/self/mountinfo", "30 20\n\n");
  EXPECT_TRUE(group_memory(root_).group.empty());
}

// The kernel would kill a process that takes more.
TEST_F(Groups, LeaveTooLittleForABlock) {
  const std::string own = "/sys/fs/cgroup/memory/weft-" + std::to_string(getpid());
  if (::mkdir(own.c_str(), 0755) != 0) GTEST_SKIP() << "needs the right to make a control group";
  std::ofstream(own + "/memory.limit_in_bytes") << (std::uint64_t{96} << 20);
  in_fresh_process([&] {
    std::ofstream(own + "/cgroup.procs") << getpid() << std::flush;
    std::memset(take(std::size_t{16} << 20), 1, std::size_t{16} << 20);
    expect_named(allocate(std::size_t{256} << 20).status(), "control group " + own);
    EXPECT_NE(take(std::size_t{16} << 20), nullptr) << "what failed has cost something";
  });
  ::rmdir(own.c_str());
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
