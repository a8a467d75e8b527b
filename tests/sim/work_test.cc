// One-sided work over simulated rails: which path takes it, and whether bytes of work that failed may
// still arrive at the peer.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <vector>

#include "tests/base/sanitized.h"
#include "tests/sim/pair.h"

namespace weft {
namespace {

using Cut = SimNetwork::Cut;

constexpr std::size_t kWords = 40;

PairOptions two_rails(std::uint64_t seed) {
  PairOptions options;
  for (std::size_t r = 0; r < 2; ++r)
    options.rails.push_back({seed * 31 + r, 1 + (seed + r * 7) % 20, 512});
  options.slots = 16;
  return options;
}

// Rank 0 works on memory of rank 1, beside streams in both directions, by which a silent rail is
// found out.
class Work {
 public:
  explicit Work(std::uint64_t seed) : random_(seed), pair_(two_rails(seed)) {
    for (const Rank rank : {0, 1})
      streams_.push_back(std::make_unique<PairStream>(
          pair_.from(rank), pair_.from(1 - rank), 1, ~std::uint32_t{0},
          [](std::uint32_t number) -> std::size_t { return 1 + number % 448; }));
    region_ = pair_.at(1).expose(std::as_writable_bytes(std::span(memory_))).value();
    number_ = link().import_region(region_.key).value();
  }

  [[nodiscard]] Pair& pair() { return pair_; }
  [[nodiscard]] Endpoint& link() { return pair_.from(0); }
  [[nodiscard]] const std::array<std::uint64_t, kWords>& memory() const { return memory_; }
  [[nodiscard]] const std::vector<Status>& ends() const { return ends_; }
  [[nodiscard]] RemoteBuffer word(std::size_t at) const {
    return {PieceForm::region, at * 8, 8, number_};
  }

  void step() {
    simulated_ns() += kTurnNs;
    turn(static_cast<Rank>(random_() % 2));
  }
  // A turn of this rank alone.
  void turn(Rank rank) {
    pair_.at(rank).progress();
    streams_[random_() % 2]->turn();
    std::array<Completion, kWords> ended;
    const std::size_t count = pair_.at(0).poll(ended);
    for (std::size_t e = 0; e < count; ++e) ends_.push_back(ended[e].status);
  }
  template <typename Predicate>
  [[nodiscard]] bool run_until(Predicate done) {
    for (int turns = 0; turns < 100'000 && !testing::Test::HasFatalFailure(); ++turns) {
      if (done()) return true;
      step();
    }
    return false;
  }
  void run(int turns) {
    while (turns-- > 0) step();
  }
  // Writes `value` to every word, each by a write of its own.
  void write_all(const std::uint64_t& value) {
    ends_.clear();
    for (std::size_t at = 0; at < kWords; ++at)
      ASSERT_EQ(link().post_write(std::as_bytes(std::span(&value, 1)), word(at), at),
                Posted::posted);
  }
  // The rail whose path has the work that has not ended.
  [[nodiscard]] std::size_t rail_at_work() {
    const Endpoint* const second = link().over(1);
    return second != nullptr && second->at_work() ? 1 : 0;
  }

 private:
  std::mt19937_64 random_;
  Pair pair_;
  std::vector<std::unique_ptr<PairStream>> streams_;
  std::array<std::uint64_t, kWords> memory_{};
  Region region_;
  std::uint32_t number_ = 0;
  std::vector<Status> ends_;
};

TEST(SimWork, IsDoneInARegionOverEachRail) {
  Work work(1);
  const std::uint64_t value = 5;
  work.write_all(value);
  ASSERT_TRUE(work.run_until([&] { return work.ends().size() == kWords; }));
  EXPECT_EQ(work.memory().back(), 5u);
  for (int member = 0; member < 2; ++member) {
    std::uint64_t found = 0;
    std::uint64_t got = 0;
    Endpoint& path = *work.link().over(member);
    const std::size_t before = work.ends().size();
    ASSERT_EQ(path.post_compare_swap(work.word(0), 5U + static_cast<unsigned>(member),
                                     6U + static_cast<unsigned>(member), &found, 1),
              Posted::posted);
    ASSERT_EQ(path.post_read(std::as_writable_bytes(std::span(&got, 1)), work.word(0), 2),
              Posted::posted);
    EXPECT_TRUE(work.link().at_work());
    ASSERT_TRUE(work.run_until([&] { return work.ends().size() == before + 2; }));
    EXPECT_EQ(found, 5u + static_cast<unsigned>(member));
    EXPECT_EQ(got, 6u + static_cast<unsigned>(member));
  }
  for (const Status& end : work.ends()) EXPECT_TRUE(end.ok()) << end.to_string();
  EXPECT_EQ(work.link().over(2), nullptr);
}

// The rail is silent first. Once it was given up it delivers what was on its way, until the peer has
// heard of that.
TEST(SimWork, LingersUntilThePeerHasClosedItsEnd) {
  std::size_t late = 0;  // courses in which memory changed after the failure was known
  const std::uint64_t all = seeds(200);
  for (std::uint64_t seed = 1; seed <= all; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Work work(seed);
    const std::uint64_t value = seed;
    work.run(200);
    work.write_all(value);
    work.run(static_cast<int>(seed % 3));
    const std::size_t rail = work.rail_at_work();
    EXPECT_FALSE(work.link().work_may_linger());
    work.pair().cut(rail, Cut::late);
    ASSERT_TRUE(work.run_until([&] { return work.ends().size() == kWords; }));
    if (work.ends().back().ok()) continue;  // all of it had arrived
    const auto known = work.memory();
    ASSERT_TRUE(work.run_until([&] { return !work.link().work_may_linger(); }));
    const auto settled = work.memory();
    late += settled != known ? 1 : 0;
    work.run(500);
    work.pair().rail(rail).mend();
    ASSERT_TRUE(work.run_until([&] { return work.pair().lives(rail); }));
    work.run(200);
    EXPECT_EQ(work.memory(), settled) << "something arrived although nothing was to linger";
    const std::uint64_t next = seed + 1'000;
    work.write_all(next);
    ASSERT_TRUE(work.run_until([&] { return work.ends().size() == kWords; }));
    EXPECT_TRUE(work.ends().back().ok()) << "the path that came back knows the region";
    EXPECT_EQ(work.memory().back(), next);
  }
  EXPECT_GT(late, all / 8) << "nothing was ever late: this test shows nothing";
}

TEST(SimWork, LingersAsLongAsThePeerSaysNothing) {
  Work work(3);
  const std::uint64_t value = 1;
  work.run(200);
  work.write_all(value);
  const std::size_t rail = work.rail_at_work();
  work.pair().cut(rail, Cut::half);  // rank 0 is told
  for (int turns = 0; turns < 5'000; ++turns) {
    simulated_ns() += kTurnNs;
    work.turn(0);
    ASSERT_TRUE(work.link().work_may_linger()) << turns;
  }
  EXPECT_EQ(work.ends().size(), kWords);
  EXPECT_TRUE(work.run_until([&] { return !work.link().work_may_linger(); }));
}

TEST(SimWork, LingersForGoodAfterTheLastPath) {
  Work work(4);
  const std::uint64_t value = 1;
  work.run(200);
  work.write_all(value);
  const std::size_t rail = work.rail_at_work();
  work.pair().cut(1 - rail, Cut::told);
  work.pair().cut(rail, Cut::told);
  ASSERT_TRUE(work.run_until([&] { return !work.link().failure().ok(); }));
  work.run(2'000);
  EXPECT_TRUE(work.link().work_may_linger());
  EXPECT_EQ(work.link().over(0), nullptr);
  EXPECT_EQ(work.link().over(1), nullptr);
}

TEST(SimWork, NothingLingersOnAPathThatHadNone) {
  Work work(5);
  const std::uint64_t value = 1;
  work.write_all(value);
  ASSERT_TRUE(work.run_until([&] { return work.ends().size() == kWords; }));
  work.pair().cut(0, Cut::told);
  for (int turns = 0; turns < 1'000; ++turns) {
    work.step();
    ASSERT_FALSE(work.link().work_may_linger());
  }
}

}  // namespace
}  // namespace weft
