// What a context of some ranks of a job hears from the job's store.
#include "engine/job/rank_map.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(RankMap, AnErrorNamesARankByItsNumberHere) {
  const std::vector<std::shared_ptr<Store>> stores = make_local_stores(4).value();
  const RankMap all(std::make_shared<StoreEvents>(stores[1]));
  const RankMap some = all.among({1, 2, 3}, "some/");
  ASSERT_TRUE(stores[3]->goodbye(Deadline::after_ms(0)).ok());
  const auto of = [](const RankMap& map, Rank rank) {
    return map.get_from(rank, "key", Deadline::after_ms(0)).status();
  };
  EXPECT_EQ(of(all, 3).code(), Code::peer_left);
  EXPECT_EQ(of(all, 3).rank(), 3);
  EXPECT_EQ(of(some, 2).code(), Code::peer_left);
  EXPECT_EQ(of(some, 2).rank(), 2);
  EXPECT_EQ(of(some, 2).text(), "rank 3 has left the job (ranks are counted in the whole job)");
  EXPECT_EQ(of(some, 1).code(), Code::timed_out);
  EXPECT_EQ(of(some, 1).rank(), 1);
}

}  // namespace
}  // namespace weft
