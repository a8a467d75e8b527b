// block_range: blocks cover everything, touch nothing twice, and are as even as grains allow.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "scheduler/plan/plan.h"

namespace weft {
namespace {

constexpr std::size_t kElements[] = {0, 1, 15, 16, 17, 63, 64, 100, 1000, 4096, 12'345};
constexpr std::size_t kGrains[] = {1, 8, 16, 64};
constexpr std::uint32_t kBlockCounts[] = {1, 2, 3, 7, 16, 64, 1000};

template <typename Check>
void for_each_partition(Check check) {
  for (const std::size_t elements : kElements) {
    for (const std::size_t grain : kGrains) {
      for (const std::uint32_t blocks : kBlockCounts) check(elements, grain, blocks);
    }
  }
}

TEST(BlockRange, BlocksFollowEachOtherAndCoverEverything) {
  for_each_partition([](std::size_t elements, std::size_t grain, std::uint32_t blocks) {
    std::size_t end = 0;
    for (std::uint32_t block = 0; block < blocks; ++block) {
      const Range range = block_range(elements, grain, blocks, block);
      ASSERT_EQ(range.offset, end);
      end = range.offset + range.count;
    }
    ASSERT_EQ(end, elements);
  });
}

TEST(BlockRange, CutsLieOnGrains) {
  for_each_partition([](std::size_t elements, std::size_t grain, std::uint32_t blocks) {
    for (std::uint32_t block = 0; block < blocks; ++block) {
      const std::size_t offset = block_range(elements, grain, blocks, block).offset;
      ASSERT_TRUE(offset % grain == 0 || offset == elements);
    }
  });
}

TEST(BlockRange, BlocksDifferByOneGrainAtMost) {
  for_each_partition([](std::size_t elements, std::size_t grain, std::uint32_t blocks) {
    std::size_t smallest = std::numeric_limits<std::size_t>::max();
    std::size_t largest = 0;
    for (std::uint32_t block = 0; block < blocks; ++block) {
      const std::size_t count = block_range(elements, grain, blocks, block).count;
      smallest = std::min(smallest, count);
      largest = std::max(largest, count);
    }
    ASSERT_LE(largest - smallest, grain);
  });
}

TEST(BlockRange, HugeBuffersDoNotOverflow) {
  const std::size_t elements = std::numeric_limits<std::size_t>::max();
  const Range last = block_range(elements, 1, 1000, 999);
  EXPECT_EQ(last.offset + last.count, elements);
  EXPECT_EQ(block_range(elements, 16, 1, 0).count, elements);
}

TEST(BlockRange, ABlockBeyondThePartitionIsABug) {
  EXPECT_DEATH((void)block_range(10, 1, 2, 2), "a block lies in its partition");
  EXPECT_DEATH((void)block_range(10, 0, 2, 1), "a grain has elements");
}

}  // namespace
}  // namespace weft
