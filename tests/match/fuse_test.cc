// Fusion: which items travel together.
#include "scheduler/fuse/fuse.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

std::vector<std::vector<std::size_t>> items_of(const std::vector<FuseBatch>& batches) {
  std::vector<std::vector<std::size_t>> items;
  for (const FuseBatch& batch : batches) {
    items.emplace_back();
    for (const FusePart& part : batch.parts) items.back().push_back(part.item);
  }
  return items;
}

using Items = std::vector<std::vector<std::size_t>>;

TEST(Fuse, SmallItemsOfOneKeyTravelTogether) {
  const FuseItem items[] = {{1, 100}, {1, 200}, {2, 100}, {1, 5000}, {1, 64}};
  const auto batches = plan_batches(items, {1000, 1000});
  EXPECT_EQ(items_of(batches), (Items{{0, 1, 4}, {2}, {3}}));
  EXPECT_EQ(batches[0].parts[1].offset, 128U);
  EXPECT_EQ(batches[0].parts[2].offset, 384U);
  EXPECT_EQ(batches[0].bytes, 448U);
  EXPECT_EQ(batches[2].bytes, 5000U);
}

TEST(Fuse, ABatchThatIsFullIsFollowedByAnother) {
  const FuseItem items[] = {{1, 512}, {1, 512}, {1, 64}};
  EXPECT_EQ(items_of(plan_batches(items, {1024, 1024})), (Items{{0, 1}, {2}}));
}

TEST(Fuse, NothingIsFusedWhereThatIsNotWanted) {
  const FuseItem items[] = {{1, 64}, {1, 64, true}, {1, 64}};
  EXPECT_EQ(items_of(plan_batches(items, {0, 1024})), (Items{{0}, {1}, {2}}));
  EXPECT_EQ(items_of(plan_batches(items, {1024, 1024})), (Items{{0, 2}, {1}}));
}

TEST(Fuse, ItemsAboveTheSecondLimitRunFromWhereTheyAre) {
  const FuseItem items[] = {{1, 100}, {1, 300}, {1, 200}};
  EXPECT_EQ(items_of(plan_batches(items, {1024, 256})), (Items{{0, 2}, {1}}));
}

TEST(Fuse, EmptyItemsAndNoItems) {
  EXPECT_TRUE(plan_batches({}, {1024, 1024}).empty());
  const FuseItem items[] = {{1, 0}, {1, 0}};
  EXPECT_EQ(items_of(plan_batches(items, {1024, 1024})), (Items{{0, 1}}));
}

}  // namespace
}  // namespace weft
