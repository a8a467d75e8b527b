// Memory whose pages went is registered anew: real calls that unmap, seen through libucm, and the
// process's own heap.
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>

#include "tests/memory/fake_device.h"

namespace weft {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 10;

void* map_at(void* address, int flags = 0) {
  return mmap(address, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

class UnmapsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (all_.coherence().code() == Code::unavailable) GTEST_SKIP() << all_.coherence().text();
    ASSERT_TRUE(all_.is_coherent()) << all_.coherence().to_string();
    ASSERT_NE(block_, MAP_FAILED);
  }
  std::uint32_t key(const void* at, std::size_t bytes = kBytes) {
    return found(all_, at, bytes).lkey();
  }
  // Registers the block, does this, and expects that the block is registered anew.
  void expect_anew(const std::function<void()>& unmap) {
    const std::uint32_t before = key(block_);
    EXPECT_EQ(key(block_), before);
    unmap();
    EXPECT_NE(key(block_), before);
  }

  FakeDevice device_;
  Registrations all_{device_, {}};
  void* block_ = map_at(nullptr);
};

TEST_F(UnmapsTest, MunmapAndAnotherMappingAtTheSameAddress) {
  expect_anew([&] {
    ASSERT_EQ(munmap(block_, kBytes), 0);
    ASSERT_EQ(map_at(block_, MAP_FIXED_NOREPLACE), block_);
  });
  munmap(block_, kBytes);
}

TEST_F(UnmapsTest, APartOfItIsEnough) {
  expect_anew([&] { ASSERT_EQ(munmap(static_cast<char*>(block_) + kBytes / 2, 1), 0); });
  munmap(block_, kBytes);
}

TEST_F(UnmapsTest, AMappingLaidOverIt) {
  expect_anew([&] { ASSERT_EQ(map_at(block_, MAP_FIXED), block_); });
  munmap(block_, kBytes);
}

TEST_F(UnmapsTest, AMappingAfterASystemCallThatNobodySaw) {
  expect_anew([&] {
    ASSERT_EQ(syscall(SYS_munmap, block_, kBytes), 0);
    ASSERT_EQ(map_at(block_, MAP_FIXED_NOREPLACE), block_);
  });
  munmap(block_, kBytes);
}

TEST_F(UnmapsTest, PagesGivenBackByAdvice) {
  for (const int advice : {MADV_DONTNEED, MADV_FREE, MADV_REMOVE}) {
    expect_anew([&] { (void)madvise(block_, kBytes, advice); });
  }
  const std::uint32_t before = key(block_);
  (void)madvise(block_, kBytes, MADV_WILLNEED);
  EXPECT_EQ(key(block_), before) << "keeps its pages";
  munmap(block_, kBytes);
}

TEST_F(UnmapsTest, AMappingThatMoves) {
  expect_anew([&] {
    void* const moved = mremap(block_, kBytes, 64 * kBytes, MREMAP_MAYMOVE);
    ASSERT_NE(moved, MAP_FAILED);
    munmap(moved, 64 * kBytes);
  });
}

TEST_F(UnmapsTest, AnEndOfDataThatShrinks) {
  void* const block = sbrk(2 * kBytes);
  const std::uint32_t before = key(block);
  (void)sbrk(-static_cast<std::intptr_t>(2 * kBytes));
  EXPECT_NE(key(block), before);
}

TEST_F(UnmapsTest, ADetachedSegment) {
  const int segment = shmget(IPC_PRIVATE, kBytes, 0600);
  if (segment < 0) GTEST_SKIP() << "no System V shared memory here";
  void* const block = shmat(segment, nullptr, 0);
  shmctl(segment, IPC_RMID, nullptr);
  const std::uint32_t before = key(block);
  shmdt(block);
  EXPECT_NE(key(block), before);
}

// Where free() keeps the block mapped (an allocator with a quarantine), its registration stays
// right.
TEST_F(UnmapsTest, AFreedBlockThatTheAllocatorUnmapped) {
  constexpr std::size_t kLarge = std::size_t{64} << 20;  // above the largest threshold for mmap
  void* volatile block = std::malloc(kLarge);
  void* const inside = static_cast<char*>(block) + (kLarge / 2 & ~std::size_t{4095}) -
                       reinterpret_cast<std::uintptr_t>(block) % 4096;
  const std::uint32_t before = key(inside);
  std::free(block);
  unsigned char resident = 0;
  const bool unmapped = mincore(inside, 4096, &resident) != 0 && errno == ENOMEM;
  EXPECT_EQ(key(inside) != before, unmapped);
}

// One thread takes the memory away and maps other pages at the same address each time before it
// hands it to the owner; the owner never gets the registration of what was there before.
TEST_F(UnmapsTest, AnotherThreadUnmapsWhileTheOwnerFinds) {
  constexpr int kRounds = 300;
  void* const steady = map_at(nullptr);
  const std::uint32_t steady_key = key(steady);
  std::atomic<int> given{0};
  std::atomic<int> done{0};
  std::thread other([&] {
    for (int round = 1; round <= kRounds; ++round) {
      munmap(block_, kBytes);
      EXPECT_EQ(map_at(block_, MAP_FIXED_NOREPLACE), block_);
      given.store(round, std::memory_order_release);
      while (done.load(std::memory_order_acquire) != round) std::this_thread::yield();
    }
  });
  std::uint32_t last = 0;
  for (int round = 1; round <= kRounds; ++round) {
    do {
      EXPECT_EQ(key(steady), steady_key);
      std::this_thread::yield();
    } while (given.load(std::memory_order_acquire) != round);
    const std::uint32_t now = key(block_);
    EXPECT_NE(std::exchange(last, now), now);
    done.store(round, std::memory_order_release);
  }
  other.join();
  EXPECT_EQ(device_.added.size(), kRounds + 1u);
  munmap(steady, kBytes);
  munmap(block_, kBytes);
}

TEST(HeapChanges, ALargeBlockThatComesBackIsRegisteredAnew) {
  FakeDevice device;
  Registrations all(device, {}, Status{});
  constexpr std::size_t kLarge = std::size_t{4} << 20;
  void* const block = allocate(kLarge).value();
  const std::uint32_t before = found(all, block, kLarge).lkey();
  EXPECT_EQ(found(all, block, kLarge).lkey(), before);
  deallocate(block);
  ASSERT_EQ(allocate(kLarge).value(), block) << "first fit";
  EXPECT_NE(found(all, block, kLarge).lkey(), before);
  deallocate(block);
}

TEST(HeapChanges, ASmallBlockKeepsItsPagesAndItsRegistration) {
  FakeDevice device;
  Registrations all(device, {}, Status{});
  void* const block = allocate(1000).value();
  const std::uint32_t before = found(all, block, 1000).lkey();
  deallocate(block);
  ASSERT_EQ(allocate(1000).value(), block) << "first fit";
  EXPECT_EQ(found(all, block, 1000).lkey(), before);
  deallocate(block);
}

}  // namespace
}  // namespace weft
