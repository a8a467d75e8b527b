// Where the heap's pages come from and go to: its file, full file systems, huge pages.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "tests/memory/fresh_heap.h"

namespace weft {
namespace {

struct stat heap_file() {
  struct stat file {};
  const Result<HeapIdentity> identity = heap_identity();
  if (!identity.ok() || fstat(identity->file, &file) != 0) throw std::runtime_error("no heap file");
  return file;
}

std::size_t pages_taken() {
  return static_cast<std::size_t>(heap_file().st_blocks) * 512;
}

TEST(Pages, LargeBlocksTakePagesWhileTheyLive) {
  with_heap(heap_of_mib(256), [] {
    (void)take(1);
    const std::size_t before = pages_taken();
    std::byte* block = take(std::size_t{32} << 20);
    EXPECT_EQ(pages_taken(), before + (std::size_t{32} << 20))
        << "reserved when given, not at the first touch";
    deallocate(block);
    EXPECT_EQ(pages_taken(), before);
  });
}

TEST(Pages, TheFileIsPrivateAndHasNoName) {
  with_heap(heap_of_mib(8), [] {
    EXPECT_EQ(heap_file().st_mode & 07777, 0600u);
    EXPECT_EQ(heap_file().st_nlink, 0u);
    EXPECT_EQ(static_cast<std::size_t>(heap_file().st_size), std::size_t{8} << 20);
  });
}

TEST(Pages, TheFileDoesNotSurviveExec) {
  with_heap(heap_of_mib(8), [] {
    const int flags = fcntl(heap_identity()->file, F_GETFD);
    EXPECT_TRUE((flags & FD_CLOEXEC) != 0);
  });
}

// A directory for a test to mount on. The mount is seen by the child alone and goes with it.
class MountPoint {
 public:
  MountPoint() {
    if (mkdtemp(path_) == nullptr) throw std::runtime_error("mkdtemp failed");
  }
  ~MountPoint() { rmdir(path_); }
  MountPoint(const MountPoint&) = delete;
  MountPoint& operator=(const MountPoint&) = delete;
  [[nodiscard]] const char* path() const { return path_; }

  // In the child: a tmpfs of `mib` MiB; whether the kernel let us.
  [[nodiscard]] bool mount_tmpfs(int mib) const {
    const std::string size = "size=" + std::to_string(mib) + "m";
    return unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("weft-test", path_, "tmpfs", 0, size.c_str()) == 0;
  }

 private:
  char path_[32] = "/tmp/weft-test-XXXXXX";
};

void with_tmpfs(int mib, const std::function<void(const std::string&)>& body) {
  const MountPoint point;
  in_fresh_process([&] {
    if (!point.mount_tmpfs(mib)) GTEST_SKIP() << "needs root to mount a tmpfs";
    HeapOptions options = heap_of_mib(64);
    options.directory = point.path();
    ASSERT_TRUE(configure_heap(options).ok());
    body(point.path());
  });
}

TEST(Pages, AFullFileSystemIsAnErrorThatNamesIt) {
  with_tmpfs(8, [](const std::string& directory) {
    const Status status = allocate(std::size_t{16} << 20).status();
    EXPECT_EQ(status.code(), Code::exhausted) << status.to_string();
    EXPECT_NE(status.text().find(directory), std::string_view::npos) << status.to_string();
    std::vector<std::byte*> blocks;
    for (Result<void*> block = allocate(2 << 20); block.ok() && blocks.size() < 100;
         block = allocate(2 << 20)) {
      blocks.push_back(static_cast<std::byte*>(block.value()));
      blocks.back()[(2 << 20) - 1] = std::byte{1};  // would be a bus error without a page behind it
    }
    EXPECT_EQ(blocks.size(), 3u) << "8 MiB, one huge page of them for small blocks";
    deallocate(blocks.at(1));
    EXPECT_EQ(take(2 << 20), blocks.at(1)) << "a failed request leaves nothing taken";
  });
}

TEST(Pages, ADirectoryStaysEmpty) {
  with_tmpfs(8, [](const std::string& directory) {
    (void)take(100);
    EXPECT_TRUE(std::filesystem::is_empty(directory));
    EXPECT_EQ(heap_usage().backing, directory);
    EXPECT_EQ(heap_file().st_mode & 07777, 0600u);
  });
}

TEST(Pages, AFileSystemWithoutRoomForTheFirstPageIsAnError) {
  with_tmpfs(1, [](const std::string& directory) {
    const Status status = allocate(1).status();
    EXPECT_EQ(status.code(), Code::exhausted);
    EXPECT_NE(status.text().find(directory), std::string_view::npos) << status.to_string();
  });
}

TEST(Pages, ADirectoryThatIsNotThereIsAnError) {
  HeapOptions options;
  options.directory = "/nowhere/at/all";
  with_heap(options, [] {
    const Status status = allocate(1).status();
    EXPECT_EQ(status.code(), Code::system);
    EXPECT_NE(status.text().find("/nowhere/at/all"), std::string_view::npos) << status.to_string();
  });
}

TEST(Pages, HugePagesAreCountedPerBlockAndCanBeOff) {
  with_heap(heap_of_mib(64), [] {
    (void)take(1);
    const std::size_t before = heap_usage().huge_bytes;
    std::byte* block = take(std::size_t{8} << 20);
    const std::size_t during = heap_usage().huge_bytes;
    EXPECT_TRUE(during == before || during == before + (std::size_t{8} << 20)) << during;
    deallocate(block);
    EXPECT_EQ(heap_usage().huge_bytes, before);
  });
  HeapOptions off = heap_of_mib(64);
  off.huge_pages = HugePages::off;
  with_heap(off, [] {
    (void)take(std::size_t{8} << 20);
    EXPECT_EQ(heap_usage().huge_bytes, 0u);
  });
}

}  // namespace
}  // namespace weft
