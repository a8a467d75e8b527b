// The allocator of the shared heap: what a block is, and that running out is an error.
#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "tests/memory/fresh_heap.h"

namespace weft {
namespace {

bool is_zero(const std::byte* block, std::size_t bytes) {
  return std::all_of(block, block + bytes, [](std::byte b) { return b == std::byte{0}; });
}

bool aligned(const void* pointer, std::uintptr_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

TEST(Heap, BlocksOfEverySizeAreAlignedZeroedAndTheirOwn) {
  with_heap(heap_of_mib(512), [] {
    std::vector<std::pair<std::byte*, std::size_t>> blocks;
    for (const std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 4032u, 4096u, 1'000'003u, 1u << 20,
                                    (1u << 20) - 1, 2u << 20, (2u << 20) + 1, 10'000'019u}) {
      std::byte* block = take(bytes);
      EXPECT_TRUE(aligned(block, bytes >= 1u << 20 ? 2u << 20
                                 : bytes >= 4096   ? 4096
                                                   : 64))
          << bytes;
      EXPECT_TRUE(is_zero(block, bytes)) << bytes;
      std::memset(block, static_cast<int>(blocks.size() + 1), bytes);
      blocks.emplace_back(block, bytes);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto [block, bytes] = blocks[i];
      EXPECT_TRUE(std::all_of(block, block + bytes, [&](std::byte b) {
        return b == std::byte(i + 1);
      })) << bytes;
      deallocate(block);
    }
    EXPECT_EQ(heap_usage().allocated_bytes, 64u) << "all but the heap's own mark came back";
  });
}

TEST(Heap, BlocksOfNothingAreDistinct) {
  with_heap(heap_of_mib(4), [] {
    std::set<std::byte*> blocks;
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(blocks.insert(take(0)).second);
    for (std::byte* block : blocks) deallocate(block);
    deallocate(nullptr);
  });
}

TEST(Heap, ReusedMemoryIsZeroAgain) {
  with_heap(heap_of_mib(16), [] {
    for (const std::size_t bytes : {100u, 100'000u, 5u << 20}) {
      std::byte* first = take(bytes);
      std::memset(first, 0xee, bytes);
      deallocate(first);
      std::byte* second = take(bytes);
      EXPECT_EQ(second, first) << "first fit";
      EXPECT_TRUE(is_zero(second, bytes)) << bytes;
      deallocate(second);
    }
  });
}

// What a device was told of are pages: others at the same addresses would be none of its.
TEST(Heap, PagesThatAreHeldStayAndAreClearedForTheNext) {
  with_heap(heap_of_mib(64), [] {
    constexpr std::size_t kPage = 2 << 20;
    std::byte* block = take(4 * kPage);
    std::memset(block, 0xee, 4 * kPage);
    std::optional<HeapHold> hold(std::in_place, heap_offset(block, 1) + kPage + 1, kPage);
    deallocate(block);  // its addresses stay mapped
    EXPECT_TRUE(is_zero(block, kPage) && is_zero(block + 3 * kPage, kPage)) << "these were held";
    EXPECT_EQ(block[kPage], std::byte{0xee}) << "the first page went";
    EXPECT_EQ(block[3 * kPage - 1], std::byte{0xee}) << "the second page went";
    EXPECT_EQ(take(3 * kPage), block) << "first fit";
    EXPECT_TRUE(is_zero(block, 3 * kPage)) << "what was held was not cleared";
    std::memset(block, 0xdd, 3 * kPage);
    HeapHold second(heap_offset(block, 1), kPage);
    deallocate(block);
    EXPECT_EQ(block[0], std::byte{0xdd});
    EXPECT_EQ(block[kPage], std::byte{0xdd});
    hold.reset();
    EXPECT_TRUE(is_zero(block + kPage, 2 * kPage)) << "free, and held by nobody any more";
    EXPECT_EQ(block[0], std::byte{0xdd}) << "the other hold";
  });
}

TEST(Heap, AFreePageThatWasHeldAndWrittenToIsZeroAgain) {
  with_heap(heap_of_mib(64), [] {
    std::byte* block = take(2 << 20);
    deallocate(block);
    {
      const HeapHold hold(heap_offset(block, 1), 2 << 20);
      block[7] = std::byte{0xee};  // as a peer could that still knows the address
    }
    EXPECT_EQ(take(2 << 20), block);
    EXPECT_TRUE(is_zero(block, 2 << 20));
    deallocate(block);
  });
}

TEST(Heap, PagesThatAreHeldStayWithABlockThatIsInUse) {
  with_heap(heap_of_mib(64), [] {
    std::byte* block = take(2 << 20);
    std::memset(block, 0xee, 2 << 20);
    { const HeapHold hold(heap_offset(block, 1), 2 << 20); }
    EXPECT_EQ(block[5], std::byte{0xee});
    deallocate(block);
    EXPECT_TRUE(is_zero(block, 2 << 20));
  });
}

TEST(Heap, FreedNeighborsMakeRoomForMore) {
  with_heap(heap_of_mib(8), [] {
    // One huge page holds the heap's mark; three are left.
    std::byte* const parts[] = {take(2 << 20), take(2 << 20), take(2 << 20)};
    EXPECT_EQ(allocate(2 << 20).status().code(), Code::exhausted);
    for (std::byte* part : {parts[0], parts[2], parts[1]}) deallocate(part);
    std::byte* whole = take(6 << 20);
    EXPECT_EQ(whole, parts[0]);
    deallocate(whole);
  });
}

TEST(Heap, SmallBlocksShareAHugePage) {
  with_heap(heap_of_mib(2), [] {
    std::vector<std::byte*> blocks;
    for (int i = 0; i < 1500; ++i) blocks.push_back(take(1000));
    EXPECT_EQ(allocate((1 << 20) - 64).status().code(), Code::exhausted)
        << "most of the page is taken";
    for (std::byte* block : blocks) deallocate(block);
    deallocate(take((1 << 20) - 64));
  });
}

// A byte less than a large request rounds up to one; it was taken as small and given back as large.
TEST(Heap, TheSizeBetweenSmallAndLargeComesBackWhereItWasTaken) {
  with_heap(heap_of_mib(4), [] {
    deallocate(take((1 << 20) - 1));
    (void)take((1 << 20) - 64);
    (void)take(900'000);
    EXPECT_TRUE(allocate(2 << 20).ok()) << "both small blocks fit in the first huge page";
  });
}

TEST(Heap, RunningOutIsAnErrorThatNamesTheSetting) {
  with_heap(heap_of_mib(8), [] {
    for (const std::size_t bytes : {std::size_t{9} << 20, std::size_t{8} << 20, ~std::size_t{0},
                                    ~std::size_t{0} - (2 << 20), std::size_t{1} << 63}) {
      const Status status = allocate(bytes).status();
      EXPECT_EQ(status.code(), Code::exhausted) << bytes;
      EXPECT_NE(status.text().find("WEFT_HEAP_MIB"), std::string_view::npos) << status.to_string();
    }
    std::size_t blocks = 0;
    while (blocks < 10'000 && allocate(100'000).ok()) ++blocks;
    EXPECT_GT(blocks, 70u);
    EXPECT_LT(blocks, 84u);
    EXPECT_NE(take(10), nullptr) << "what is left is still given";
  });
}

TEST(Heap, OffsetsAndAddressesAgree) {
  with_heap(heap_of_mib(8), [] {
    int outside = 0;
    EXPECT_EQ(heap_offset(&outside, 4), kNotInHeap) << "before the heap exists";
    std::byte* block = take(1000);
    const std::uint64_t offset = heap_offset(block, 1000);
    ASSERT_NE(offset, kNotInHeap);
    EXPECT_EQ(heap_address(offset), block);
    EXPECT_EQ(heap_offset(&outside, 4), kNotInHeap);
    EXPECT_EQ(heap_offset(block, std::size_t{9} << 20), kNotInHeap) << "longer than the heap";
    EXPECT_EQ(heap_offset(block, ~std::size_t{0}), kNotInHeap);
  });
}

TEST(Heap, ItsOptionsAreFixedOnceItExists) {
  with_heap(heap_of_mib(8), [] {
    EXPECT_TRUE(configure_heap(heap_of_mib(16)).ok()) << "not made yet";
    (void)take(1);
    EXPECT_EQ(configure_heap(heap_of_mib(8)).code(), Code::invalid_argument);
    EXPECT_TRUE(configure_heap(heap_of_mib(16)).ok());
    EXPECT_EQ(heap_usage().backing, "memfd");
  });
}

TEST(Heap, WhatItDidNotGiveMayNotBeFreed) {
  EXPECT_DEATH(
      {
        std::byte* block = take(100);
        deallocate(block);
        deallocate(block);
      },
      "did not give");
  EXPECT_DEATH(
      {
        std::byte* block = take(100);
        deallocate(block + 8);
      },
      "did not give");
  EXPECT_DEATH(
      {
        int outside = 0;
        (void)take(1);
        deallocate(&outside);
      },
      "did not give");
}

TEST(Heap, ThreadsNeverShareABlock) {
  with_heap(heap_of_mib(512), [] {
    std::vector<std::thread> threads;
    for (int self = 1; self <= 4; ++self) {
      threads.emplace_back([self] {
        std::vector<std::pair<std::byte*, std::size_t>> held(16);
        for (std::size_t step = 0; step < 2'000; ++step) {
          auto& [block, bytes] = held[step * 7 % held.size()];
          for (const std::byte b : std::span(block, bytes)) ASSERT_EQ(b, std::byte(self));
          deallocate(block);
          bytes = step % 200 == 0 ? (2 << 20) + step : step * 37 % 20'000;
          block = take(bytes);
          std::memset(block, self, bytes);
        }
        for (const auto& [block, bytes] : held) deallocate(block);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(heap_usage().allocated_bytes, 64u);
  });
}

}  // namespace
}  // namespace weft
