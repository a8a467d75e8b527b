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

// Who is waited for may have gone another way because of the death.
TEST(RankMap, AWaitEndsWhenAThirdRankHasDied) {
  std::vector<std::shared_ptr<Store>> stores = make_local_stores(4).value();
  const RankMap all(std::make_shared<StoreEvents>(stores[1]));
  const RankMap others = all.among({0, 1, 2}, "others/");
  stores[3].reset();  // without goodbye
  const auto of = [](const RankMap& map, std::int64_t ms) {
    return map.get_from(0, "key", Deadline::after_ms(ms)).status();
  };
  const Status status = of(all.among({0, 1, 3}, "some/"), 600'000);
  EXPECT_EQ(status.code(), Code::peer_died);
  EXPECT_EQ(status.rank(), 2) << status.to_string();
  EXPECT_EQ(of(others, 20).code(), Code::timed_out);
}

// Ranks that know of more deaths than others, or fewer, mean the same survivors by the same keys.
TEST(RankMap, SurvivorsHaveOneNameWhicheverWayTheyWereFound) {
  const std::vector<std::shared_ptr<Store>> stores = make_local_stores(4).value();
  const RankMap first(std::make_shared<StoreEvents>(stores[0]));
  const RankMap second(std::make_shared<StoreEvents>(stores[2]));
  const RankMap at_once = first.left({0, 2}, 0);
  const RankMap one_by_one = second.left({0, 1, 2}, 0).left({0, 2}, 0);
  EXPECT_EQ(at_once.prefix(), one_by_one.prefix());
  EXPECT_EQ(one_by_one.rank(), 1);
  EXPECT_NE(first.left({0, 2}, 0).prefix(), at_once.prefix());  // a second context of theirs
  EXPECT_NE(first.left({0, 2}, 1).prefix(), second.left({0, 2}, 0).prefix());
}

// Ranks that have looked and ranks that have not yet never meet under one name.
TEST(RankMap, AnEntranceHasANameOfItsOwn) {
  const std::vector<std::shared_ptr<Store>> stores = make_local_stores(4).value();
  const RankMap first(std::make_shared<StoreEvents>(stores[0]));
  const RankMap second(std::make_shared<StoreEvents>(stores[2]));
  const std::vector<Incarnation> newcomers = {{1, 1}};
  const RankMap joined = first.left({0, 2}, 0).joined_by(newcomers, {0, 1}, 0, 1);
  EXPECT_EQ(joined.size(), 3);
  EXPECT_EQ(joined.incarnation(1), (Incarnation{1, 1}));
  EXPECT_EQ(joined.rank(), 0);
  EXPECT_EQ(second.joined_by(newcomers, {0, 2}, 0, 1).prefix(), joined.prefix());
  EXPECT_NE(second.joined_by({{1, 2}}, {0, 2}, 0, 1).prefix(), joined.prefix());
  // The newcomer is gone again: those who had seen the entrance are not those who had not.
  EXPECT_NE(joined.left({0, 2}, 0).prefix(), second.left({0, 2}, 0).prefix());
}

}  // namespace
}  // namespace weft
