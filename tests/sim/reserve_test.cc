// A rail that was taken out because it grew slow is a reserve: when the last that lives fails, both
// ends bring it back at once, and every message still comes once, whole and in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/base/sanitized.h"
#include "tests/sim/pair.h"

namespace weft {
namespace {

using Cut = SimNetwork::Cut;

constexpr double kRate = 100;  // bytes in a turn
constexpr std::int64_t kReturnMs = 1000;
constexpr int kReturnTurns = static_cast<int>(kReturnMs * 1'000'000 / kTurnNs);
constexpr std::size_t kGood = 0;
constexpr std::size_t kSlow = 1;

PairOptions rails_that_grow_slow(std::uint64_t seed) {
  PairOptions options;
  for (std::size_t r = 0; r < 2; ++r)
    options.rails.push_back({seed * 31 + r, 1 + (seed + r * 7) % 20, 512, kRate});
  options.silence_ms = 100;
  options.return_ms = kReturnMs;
  options.slots = 16;
  options.slow_ms = 60;
  return options;
}

// Streams on all channels in both directions over a good rail and one that grows slow.
class Reserve {
 public:
  explicit Reserve(std::uint64_t seed) : Reserve(seed, rails_that_grow_slow(seed)) {}
  Reserve(std::uint64_t seed, const PairOptions& options) : random_(seed), pair_(options) {
    for (const Rank rank : {0, 1}) {
      for (std::uint32_t channel = 0; channel < kSimChannels; ++channel) {
        streams_.push_back(std::make_unique<PairStream>(
            pair_.from(rank), pair_.from(1 - rank), channel, ~std::uint32_t{0},
            [salt = seed + channel](std::uint32_t number) -> std::size_t {
              const bool small = (number * 2654435761U + salt) % 3 == 0;
              return small ? number % (kSimPayload + 1) : kSimPayload + 1 + number % 448;
            }));
      }
    }
  }

  // Both rails carry for a while, then one only 1/40 of that, until an end finds it slow.
  void make_slow() {
    run(2 * kReturnTurns);
    pair_.rail(kSlow).set_rate(kRate / 40);
    for (int turn = 0; turn < 20'000 && !is_slow(0) && !is_slow(1); ++turn) run(1);
    ASSERT_TRUE(is_slow(0) || is_slow(1)) << pair_.paths(0);
  }
  void run(int turns) {
    for (int turn = 0; turn < turns && !testing::Test::HasFatalFailure(); ++turn) step(true);
  }
  // How many turns it takes until all that was sent is known to have come; `most` if it did not.
  int finish(int most) {
    for (int turn = 0; turn < most && !testing::Test::HasFatalFailure(); ++turn) {
      if (std::ranges::all_of(streams_, [](const auto& stream) { return stream->caught_up(); })) {
        EXPECT_FALSE(has_doubles());
        return turn;
      }
      step(false);
    }
    return most;
  }
  // Until an end, or both, say this of a rail.
  void run_until(std::size_t rail, std::string_view text, int ends) {
    const auto says = [&](Rank rank) {
      return pair_.path(rank, rail).find(text) != std::string::npos ? 1 : 0;
    };
    int turn = 0;
    for (; turn < 10'000 && says(0) + says(1) < ends; ++turn) run(1);
    ASSERT_LT(turn, 10'000) << pair_.paths(0) << "; " << pair_.paths(1);
  }
  int run_until_back(int most) {
    int turns = 0;
    for (; turns < most && !pair_.lives(kSlow); turns += 10) run(10);
    return turns;
  }
  int run_until_failed(Rank rank, int most) {
    int turns = 0;
    for (; turns < most && pair_.from(rank).failure().ok(); ++turns) step(true);
    return turns;
  }
  // Rank 1 takes nothing from this channel any more, as one that has no such operation yet.
  void park(std::uint32_t channel) { parked_ = channel; }
  void unpark() { parked_ = kNone; }

  [[nodiscard]] bool is_slow(Rank rank) {
    return pair_.path(rank, kSlow).find("has grown slow") != std::string::npos;
  }
  [[nodiscard]] int below(int end) {
    return static_cast<int>(random_() % static_cast<std::uint64_t>(end));
  }
  [[nodiscard]] Pair& pair() { return pair_; }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  // The control channel has notes about paths, too.
  [[nodiscard]] bool has_doubles() {
    return std::ranges::any_of(streams_, [](const auto& stream) {
      return stream->channel() != kControlChannel && stream->has_doubles();
    });
  }
  void step(bool more) {
    simulated_ns() += kTurnNs;
    pair_.at(below(2)).progress();
    for (int k = 0; k < 3; ++k) {
      const auto chosen = static_cast<std::size_t>(below(static_cast<int>(streams_.size())));
      if (chosen == parked_) continue;
      more ? streams_[chosen]->turn() : streams_[chosen]->take();
    }
  }

  std::mt19937_64 random_;
  Pair pair_;
  std::vector<std::unique_ptr<PairStream>> streams_;  // those from rank 0 first
  std::size_t parked_ = kNone;
};

// The good rail is cut some turns after the other was taken out: the peer may not have heard of
// that yet.
void cut_while_slow(std::uint64_t seed, Cut how, int latest) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Reserve ranks(seed);
  ranks.make_slow();
  ranks.run(ranks.below(latest));
  if (testing::Test::HasFatalFailure()) return;
  ranks.pair().cut(kGood, how, ranks.below(2));
  if (seed % 2 == 0) ranks.pair().rail(kSlow).set_rate(kRate);
  EXPECT_LT(ranks.run_until_back(kReturnTurns / 2), kReturnTurns / 2) << "at once";
  EXPECT_LT(ranks.finish(kReturnTurns), kReturnTurns)
      << ranks.pair().paths(0) << "; " << ranks.pair().paths(1);
  for (const Rank rank : {0, 1}) EXPECT_TRUE(ranks.pair().from(rank).failure().ok());
  EXPECT_TRUE(ranks.pair().lives(kSlow)) << ranks.pair().paths(0) << "; " << ranks.pair().paths(1);
}

TEST(Reserve, ASlowRailCarriesWhenTheLastOneFails) {
  for (std::uint64_t seed = 1; seed <= seeds(12); ++seed) cut_while_slow(seed, Cut::told, 4000);
}

TEST(Reserve, ThoughOnlyOneEndSeesTheFailure) {
  for (std::uint64_t seed = 1; seed <= seeds(12); ++seed) cut_while_slow(seed, Cut::half, 4000);
}

TEST(Reserve, AndWhenTheLastOneFallsSilent) {
  for (std::uint64_t seed = 1; seed <= seeds(12); ++seed) cut_while_slow(seed, Cut::silent, 4000);
  for (std::uint64_t seed = 1; seed <= seeds(12); ++seed) cut_while_slow(seed, Cut::late, 4000);
}

TEST(Reserve, ThoughThePeerHasNotHeardThatItWasTakenOut) {
  for (std::uint64_t seed = 1; seed <= seeds(10); ++seed) {
    for (const Cut how : {Cut::told, Cut::half, Cut::silent, Cut::late})
      cut_while_slow(seed, how, 30);
  }
}

// What came on the slow rail and nobody wants yet does not hold it up.
TEST(Reserve, ThoughWhatCameOverItIsNotTaken) {
  for (std::uint64_t seed = 1; seed <= seeds(8); ++seed) {
    SCOPED_TRACE(seed);
    Reserve ranks(seed);
    ranks.make_slow();
    ranks.park(1);
    ranks.run(100);
    ranks.pair().cut(kGood, seed % 2 == 0 ? Cut::told : Cut::silent);
    EXPECT_LT(ranks.run_until_back(kReturnTurns / 2), kReturnTurns / 2) << ranks.pair().paths(1);
    ranks.unpark();
    EXPECT_LT(ranks.finish(kReturnTurns), kReturnTurns);
  }
}

// A rail that was silent comes back before anybody said what had come over it; with `again`, that
// connection ends before it was said, too. False: what brought it back lay there when it ended, so it
// was a path that lived, and the last one.
bool return_in_doubt(std::uint64_t seed, bool again) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  PairOptions options;
  for (std::size_t r = 0; r < 2; ++r)
    options.rails.push_back({seed * 31 + r, 1 + (seed + r * 7) % 20, 512});
  Reserve ranks(seed, options);
  ranks.run(ranks.below(200));
  ranks.pair().cut(0, Cut::silent);
  ranks.run_until(0, "given up", 1);
  ranks.pair().cut(1, Cut::told);
  ranks.pair().rail(0).mend();
  if (again) {
    ranks.run_until(0, "coming back", 2);
    ranks.run(ranks.below(40));
    for (const Rank rank : {0, 1}) {
      if (ranks.pair().path(rank, 0).find("coming back") == std::string::npos) continue;
      ranks.pair().cut(0, Cut::half, rank);
      ranks.pair().rail(0).mend();
      ranks.pair().at(rank).progress();
      if (!ranks.pair().from(rank).failure().ok()) return false;
      break;
    }
  }
  EXPECT_LT(ranks.finish(10'000), 10'000) << ranks.pair().paths(0) << "; " << ranks.pair().paths(1);
  EXPECT_TRUE(ranks.pair().lives(0));
  return true;
}

TEST(Reserve, WhatCameBeforeIsSaidOverTheNewConnection) {
  for (std::uint64_t seed = 1; seed <= seeds(60); ++seed) EXPECT_TRUE(return_in_doubt(seed, false));
}

TEST(Reserve, OrOverTheOneAfterIt) {
  int judged = 0;
  for (std::uint64_t seed = 1; seed <= seeds(60); ++seed)
    judged += return_in_doubt(seed, true) ? 1 : 0;
  EXPECT_GT(judged, searched(50, 5));
}

// It is waited for as long as any return is.
TEST(Reserve, AReserveThatIsDeadTooEndsThePeer) {
  Reserve ranks(1);
  ranks.make_slow();
  ranks.run(400);
  ranks.pair().cut(kSlow, Cut::silent);
  ranks.pair().cut(kGood, Cut::told);
  ranks.run(100);
  EXPECT_TRUE(ranks.pair().from(0).failure().ok());
  const int most = 11 * kReturnTurns;
  EXPECT_LT(ranks.run_until_failed(0, most), most);
  EXPECT_LT(ranks.run_until_failed(1, most), most);
  EXPECT_NE(ranks.pair().from(0).failure().text().find("the last path to rank 1"),
            std::string_view::npos);
}

TEST(Reserve, WhatCannotConnectAgainIsNone) {
  PairOptions options = rails_that_grow_slow(1);
  for (SimOptions& rail : options.rails) rail.reconnects = false;
  Reserve ranks(1, options);
  ranks.make_slow();
  ranks.run(400);
  ranks.pair().cut(kGood, Cut::told);
  EXPECT_LT(ranks.run_until_failed(0, 2000), 2000);
  EXPECT_LT(ranks.run_until_failed(1, 2000), 2000);
}

}  // namespace
}  // namespace weft
