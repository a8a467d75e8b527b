// Store: one meaning, two implementations. Every test here runs in process and over TCP.
#include <atomic>

#include "tests/bootstrap/stores.h"

namespace weft::testing {
namespace {

class AnyStore : public ::testing::TestWithParam<Job (*)(int)> {
 protected:
  static Job start(int size) { return GetParam()(size); }
};

INSTANTIATE_TEST_SUITE_P(Kinds, AnyStore, ::testing::Values(&local_job, &tcp_job),
                         [](const auto& kind) { return kind.index == 0 ? "Local" : "Tcp"; });

TEST_P(AnyStore, EveryRankGetsWhatEveryRankPut) {
  const Job job = start(5);
  for_each_rank(job.ranks, [](Store& store) {
    const std::string own = "address of " + std::to_string(store.rank());
    EXPECT_TRUE(store.put("address/" + std::to_string(store.rank()), own).ok());
    for (Rank other = 0; other < store.size(); ++other) {
      const auto value = store.get_from(other, "address/" + std::to_string(other), patient());
      ASSERT_TRUE(value.ok()) << value.status().to_string();
      EXPECT_EQ(*value, "address of " + std::to_string(other));
    }
    EXPECT_TRUE(store.fence(patient()).ok());
    EXPECT_TRUE(store.goodbye(patient()).ok());
  });
}

TEST_P(AnyStore, NobodyPassesAFenceBeforeAllAreThere) {
  const Job job = start(4);
  std::atomic<int> arrived{0};
  for_each_rank(job.ranks, [&](Store& store) {
    for (int round = 1; round <= 50; ++round) {
      ++arrived;
      ASSERT_TRUE(store.fence(patient()).ok());
      EXPECT_GE(arrived.load(), 4 * round);
    }
  });
}

TEST_P(AnyStore, GetWaitsForThePut) {
  const Job job = start(2);
  std::thread getter([&] { EXPECT_EQ(job.ranks[1]->get("late", patient()).value(), "value"); });
  EXPECT_TRUE(job.ranks[0]->put("late", "value").ok());
  getter.join();
}

TEST_P(AnyStore, ValuesAreBytesOfAnyLengthUpToTheBound) {
  const Job job = start(2);
  std::string big(kMaxStoreValue, '\0');
  for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 31);
  EXPECT_TRUE(job.ranks[0]->put("big", big).ok());
  EXPECT_TRUE(job.ranks[0]->put("empty", "").ok());
  EXPECT_TRUE(job.ranks[1]->get("big", patient()).value() == big);
  EXPECT_EQ(job.ranks[1]->get("empty", patient()).value(), "");
  EXPECT_EQ(job.ranks[0]->put("bigger", big + "x").code(), Code::invalid_argument);
  EXPECT_EQ(job.ranks[0]->put(std::string(kMaxStoreKey + 1, 'k'), "").code(),
            Code::invalid_argument);
  EXPECT_EQ(job.ranks[0]->put("", "x").code(), Code::invalid_argument);
  EXPECT_TRUE(job.ranks[0]->put(std::string(kMaxStoreKey, 'k'), "x").ok());
}

// In process alone, as over TCP it is the same board.
TEST(LocalStore, AJobMayPutSoManyBytes) {
  const Job job = local_job(1);
  const std::string value(kMaxStoreValue, 'v');
  constexpr std::size_t kFit = kMaxStoreTotal / (kMaxStoreValue + 1);
  for (std::size_t i = 0; i < kFit; ++i) {
    const std::string key(1, static_cast<char>(i));
    ASSERT_TRUE(job.ranks[0]->put(key, value).ok());
    ASSERT_TRUE(job.ranks[0]->put(key, value).ok()) << "what is there already takes nothing";
  }
  EXPECT_EQ(job.ranks[0]->put("last", value).code(), Code::exhausted);
  EXPECT_TRUE(job.ranks[0]->put("last", "v").ok());
  EXPECT_TRUE(job.ranks[0]->take_back(std::string(1, '\0')).ok());
  EXPECT_TRUE(job.ranks[0]->put("one more", value).ok());
}

TEST_P(AnyStore, AKeyIsWrittenOnce) {
  const Job job = start(2);
  EXPECT_TRUE(job.ranks[0]->put("key", "one").ok());
  EXPECT_TRUE(job.ranks[1]->put("key", "one").ok());
  EXPECT_EQ(job.ranks[1]->put("key", "two").code(), Code::mismatch);
  EXPECT_EQ(job.ranks[1]->get("key", patient()).value(), "one");
}

TEST_P(AnyStore, WhatIsTakenBackIsGone) {
  const Job job = start(2);
  Store& store = *job.ranks[0];
  EXPECT_TRUE(store.put("key", "one").ok());
  EXPECT_TRUE(store.take_back("key").ok());
  EXPECT_EQ(job.ranks[1]->get("key", Deadline::after_ms(0)).status().code(), Code::timed_out);
  EXPECT_TRUE(store.put("key", "other").ok());
  EXPECT_EQ(job.ranks[1]->get("key", patient()).value(), "other");
  EXPECT_TRUE(store.take_back("never put").ok());
  EXPECT_EQ(store.take_back("").code(), Code::invalid_argument);
}

TEST_P(AnyStore, AFenceThatTimesOutNamesWhoIsMissingAndMayBeRepeated) {
  const Job job = start(3);
  const Status alone = job.ranks[0]->fence(Deadline::after_ms(1));
  EXPECT_EQ(alone.code(), Code::timed_out);
  EXPECT_TRUE(contains(alone.text(), "ranks 1, 2 did not come")) << alone.to_string();
  for_each_rank(job.ranks, [](Store& store) { EXPECT_TRUE(store.fence(patient()).ok()); });
}

TEST_P(AnyStore, AGetThatTimesOutNamesKeyAndRank) {
  const Job job = start(2);
  const Status status = job.ranks[0]->get_from(1, "segment", Deadline::after_ms(1)).status();
  EXPECT_EQ(status.code(), Code::timed_out);
  EXPECT_EQ(status.rank(), 1);
  EXPECT_EQ(status.text(), "get 'segment': rank 1 has not put it");
  EXPECT_TRUE(job.ranks[1]->put("segment", "x").ok());
  EXPECT_EQ(job.ranks[0]->get_from(1, "segment", patient()).value(), "x");
}

TEST_P(AnyStore, ADeathIsToldToAllOthersAndEndsTheirWaits) {
  Job job = start(4);
  std::vector<std::thread> waiting;
  for (const Rank rank : {0, 1}) {
    waiting.emplace_back([&job, rank] {
      Store& store = *job.ranks[static_cast<std::size_t>(rank)];
      const Status status =
          rank == 0 ? store.fence(patient()) : store.get_from(2, "x", patient()).status();
      EXPECT_EQ(status.code(), Code::peer_died) << status.to_string();
      EXPECT_EQ(status.rank(), 2);
    });
  }
  job.ranks[2].reset();  // no goodbye
  for (std::thread& thread : waiting) thread.join();
  for (const std::size_t rank : {0U, 1U, 3U}) {
    const StoreEvent event = wait_for_event(*job.ranks[rank]);
    EXPECT_EQ(event.kind, StoreEvent::Kind::died);
    EXPECT_EQ(event.rank, 2);
    EXPECT_FALSE(job.ranks[rank]->next_event().has_value());
  }
  // The survivors go on without it.
  EXPECT_TRUE(job.ranks[0]->put("epoch/1", "0 1 3").ok());
  EXPECT_EQ(job.ranks[3]->get("epoch/1", patient()).value(), "0 1 3");
}

TEST_P(AnyStore, TheFirstDeathIsTheOneThatAFenceNames) {
  Job job = start(4);
  for (const std::size_t rank : {2U, 0U}) {
    job.ranks[rank].reset();
    EXPECT_EQ(wait_for_event(*job.ranks[3]).rank, static_cast<Rank>(rank));
  }
  EXPECT_EQ(job.ranks[3]->fence(patient()).rank(), 2);
}

TEST_P(AnyStore, AGoodbyeIsNoDeath) {
  Job job = start(3);
  EXPECT_TRUE(job.ranks[1]->goodbye(patient()).ok());
  EXPECT_EQ(job.ranks[1]->put("x", "y").code(), Code::closed);
  EXPECT_EQ(job.ranks[1]->goodbye(patient()).code(), Code::closed);
  job.ranks[1].reset();
  for (const std::size_t rank : {0U, 2U}) {
    const StoreEvent event = wait_for_event(*job.ranks[rank]);
    EXPECT_EQ(event.kind, StoreEvent::Kind::left);
    EXPECT_EQ(event.rank, 1);
  }
  const Status fence = job.ranks[0]->fence(patient());
  EXPECT_EQ(fence.code(), Code::peer_left);
  EXPECT_EQ(fence.rank(), 1);
  EXPECT_EQ(job.ranks[2]->get_from(1, "never", patient()).status().code(), Code::peer_left);
}

TEST_P(AnyStore, OneRankHasAStoreToo) {
  const Job job = start(1);
  EXPECT_TRUE(job.ranks[0]->fence(patient()).ok());
  EXPECT_TRUE(job.ranks[0]->put("a", "b").ok());
  EXPECT_EQ(job.ranks[0]->get("a", patient()).value(), "b");
  EXPECT_TRUE(job.ranks[0]->goodbye(patient()).ok());
}

TEST_P(AnyStore, ThreadsOfOneRankMayAllWait) {
  const Job job = start(2);
  std::vector<std::thread> getters;
  for (int i = 0; i < 8; ++i) {
    getters.emplace_back([&job, i] {
      const std::string key = "key" + std::to_string(i);
      EXPECT_EQ(job.ranks[0]->get(key, patient()).value(), key);
    });
  }
  for (int i = 7; i >= 0; --i) {
    const std::string key = "key" + std::to_string(i);
    EXPECT_TRUE(job.ranks[1]->put(key, key).ok());
  }
  for (std::thread& getter : getters) getter.join();
}

}  // namespace
}  // namespace weft::testing
