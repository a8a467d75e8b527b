// Rails of a bond that carry at different rates, and rates that change in the middle: how work is
// shared, which rail counts as grown slow, and which never may. Time is injected, so a turn is
// always equally long and a rate is exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/sim/pair.h"

namespace weft {
namespace {

constexpr std::size_t kPiece = 4096;
// A piece with its header takes a rail four turns.
constexpr double kRate = (kPiece + 64) / 4.0;
constexpr int kTurnsPerPiece = 4;
constexpr int kSecond = static_cast<int>(1'000'000'000 / kTurnNs);
constexpr std::int64_t kSlowMs = 400;
constexpr int kSlowTurns = static_cast<int>(kSlowMs * 1'000'000 / kTurnNs);

// Rank 0 sends rank 1 whole pieces for as long as it is asked to.
class Flow {
 public:
  explicit Flow(const std::vector<double>& rates, std::uint32_t slots = 16)
      : pair_(options_of(rates, slots)) {
    stream_ = std::make_unique<PairStream>(pair_.from(0), pair_.from(1), 1, ~std::uint32_t{0},
                                           [this](std::uint32_t number) {
                                             const auto small = sizes_.upper_bound(number);
                                             return std::prev(small)->second;
                                           });
  }

  // From the next message on.
  void send(std::size_t bytes) { sizes_[stream_->sent()] = bytes; }
  // At most so many on their way.
  void limit(std::uint32_t messages) { most_ = messages; }
  // And beside them pieces of a few bytes, one after the other.
  void send_little_ones() {
    little_ = std::make_unique<PairStream>(pair_.from(0), pair_.from(1), 2, ~std::uint32_t{0},
                                           [](std::uint32_t) { return kSimPayload + 1; });
  }
  // The receiver looks at its network once in so many turns.
  void receive_each(int turns) { receive_each_ = turns; }

  void turn() {
    simulated_ns() += kTurnNs;
    ++turn_;
    if (turn_ % 2 == 0) {
      pair_.at(0).progress();
    } else if (receive_each_ == 0 || turn_ / receive_each_ != last_receive_) {
      last_receive_ = receive_each_ == 0 ? 0 : turn_ / receive_each_;
      pair_.at(1).progress();
    } else {
      pair_.rail(0).pass();
      pair_.rail(1).pass();
    }
    advance(*stream_, most_);
    if (little_) advance(*little_, 1);
  }
  void run(int turns) {
    for (int turn = 0; turn < turns && !testing::Test::HasFatalFailure(); ++turn) this->turn();
  }
  // How many turns it took until the rail was given up or lived again; `most` if it did not.
  int run_until(bool lives, std::size_t rail, int most) {
    int turns = 0;
    while (turns < most && pair_.lives(rail) != lives && !testing::Test::HasFatalFailure()) {
      run(10);
      turns += 10;
    }
    return turns;
  }
  // Pieces that came in so many turns.
  std::uint32_t received_in(int turns) {
    const std::uint32_t before = stream_->received();
    run(turns);
    return stream_->received() - before;
  }
  // Whether both rails are in use all the time.
  bool lives_through(int turns) {
    for (int turn = 0; turn < turns; turn += 10) {
      run(10);
      if (!pair_.lives(0) || !pair_.lives(1)) return false;
    }
    return !testing::Test::HasFatalFailure();
  }

  [[nodiscard]] Pair& pair() { return pair_; }

 private:
  static PairOptions options_of(const std::vector<double>& rates, std::uint32_t slots) {
    PairOptions options;
    for (std::size_t r = 0; r < rates.size(); ++r)
      options.rails.push_back({r + 1, 4, kPiece, rates[r]});
    options.slots = slots;
    options.silence_ms = 500;
    options.return_ms = 100;
    options.slow_ms = kSlowMs;
    return options;
  }

  static void advance(PairStream& stream, std::uint32_t most) {
    if (stream.sent() - stream.received() < most) return stream.turn();
    stream.take();
  }

  Pair pair_;
  std::map<std::uint32_t, std::size_t> sizes_{{0, kPiece}};
  std::unique_ptr<PairStream> stream_, little_;
  std::uint32_t most_ = ~std::uint32_t{0};
  int receive_each_ = 0, last_receive_ = 0, turn_ = 0;
};

TEST(Rates, UnequalRailsShareByTheirRatesFromTheStart) {
  for (const double share : {1.0, 2.0, 4.0}) {
    SCOPED_TRACE(share);
    Flow flow({kRate, kRate / share});
    // Of what both could carry; the slower one is waited for until it was measured.
    const double all = kSecond / 2 / kTurnsPerPiece * (1 + 1 / share);
    EXPECT_GT(flow.received_in(kSecond / 2), 0.8 * all);
    const auto before =
        std::array{flow.pair().rail(0).delivered(), flow.pair().rail(1).delivered()};
    EXPECT_GT(flow.received_in(kSecond / 2), 0.9 * all);
    const auto fast = static_cast<double>(flow.pair().rail(0).delivered() - before[0]);
    const auto slow = static_cast<double>(flow.pair().rail(1).delivered() - before[1]);
    EXPECT_NEAR(slow / fast, 1 / share, 0.15 / share);
  }
}

TEST(Rates, ARailThatGrewSlowIsTakenOut) {
  for (const double factor : {50.0, 1000.0}) {
    SCOPED_TRACE(factor);
    Flow flow({kRate, kRate});
    flow.run(2 * kSecond);
    flow.pair().rail(1).set_rate(kRate / factor);
    EXPECT_LT(flow.run_until(false, 1, 10 * kSlowTurns), 3 * kSlowTurns);
    EXPECT_TRUE(flow.pair().lives(0));
    EXPECT_NE(flow.pair().path(0, 1).find("has grown slow"), std::string::npos);
    // Within a few milliseconds the other has all the work.
    flow.run(kSecond / 100);
    EXPECT_GT(flow.received_in(kSecond / 20), 0.9 * kSecond / 20 / kTurnsPerPiece);
  }
}

// The other one has carried nothing, so nobody knows yet that it can.
TEST(Rates, AUsedRailThatGrewSlowIsLeftForOneThatIsNotUsed) {
  Flow flow({kRate, kRate});
  flow.pair().from(0).use_members(std::array{1}, std::array{1});
  flow.run(2 * kSecond);
  EXPECT_EQ(flow.pair().rail(0).delivered(), 0U);
  flow.pair().rail(1).set_rate(kRate / 50);
  EXPECT_LT(flow.run_until(false, 1, 10 * kSlowTurns), 4 * kSlowTurns);
  flow.run(kSecond / 100);
  EXPECT_GT(flow.received_in(kSecond / 20), 0.9 * kSecond / 20 / kTurnsPerPiece);
  // And taken again when it is back.
  flow.pair().rail(1).set_rate(kRate);
  EXPECT_LT(flow.run_until(true, 1, 100 * kSecond), 100 * kSecond);
  flow.run(kSecond);
  const std::uint64_t before = flow.pair().rail(0).delivered();
  EXPECT_GT(flow.received_in(kSecond), 0.8 * kSecond / kTurnsPerPiece);
  EXPECT_LT(flow.pair().rail(0).delivered() - before, kSecond / kTurnsPerPiece / 10U);
}

// Small pieces one at a time carry little, which says nothing of the rail.
TEST(Rates, SmallMessagesAfterLargeOnesKeepToTheUsedRail) {
  Flow flow({kRate, kRate});
  flow.pair().from(0).use_members(std::array{1}, std::array{1});
  flow.run(4 * kSecond);
  flow.limit(1);
  flow.send(kSimPayload + 1);
  flow.run(20 * kSecond);
  EXPECT_EQ(flow.pair().rail(0).delivered(), 0U);
  EXPECT_GT(flow.pair().rail(1).delivered(), 0U);
}

TEST(Rates, TheReasonNamesRailPeerAndRates) {
  Flow flow({kRate, kRate});
  flow.run(4 * kSecond);
  flow.pair().rail(1).set_rate(kRate / 100);
  ASSERT_LT(flow.run_until(false, 1, 3 * kSlowTurns), 3 * kSlowTurns);
  const std::string text = flow.pair().path(0, 1);
  for (const char* part : {"sim1 has grown slow", "to rank 1", "Mbit/s", "earlier 8", "carries 8"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  EXPECT_NE(flow.pair().path(1, 1).find("rank 0 gave the path up"), std::string::npos);
}

// With slots enough that the slow one has work all the time.
TEST(Rates, UnequalRailsAreNeverTakenOut) {
  for (const double share : {4.0, 10.0, 40.0}) {
    SCOPED_TRACE(share);
    Flow flow({kRate, kRate / share}, 128);
    EXPECT_TRUE(flow.lives_through(6 * kSecond)) << flow.pair().paths(0);
  }
}

TEST(Rates, SlownessOfBothRailsIsNoRails) {
  Flow flow({kRate, kRate / 4});
  flow.run(2 * kSecond);
  for (const double factor : {30.0, 100.0}) {
    flow.pair().rail(0).set_rate(kRate / factor);
    flow.pair().rail(1).set_rate(kRate / 4 / factor);
    EXPECT_TRUE(flow.lives_through(4 * kSecond)) << flow.pair().paths(0);
  }
}

TEST(Rates, ASlowReceiverIsNoSlowRail) {
  for (const double share : {1.0, 10.0}) {
    for (const int each : {kSecond / 20, kSecond / 2, 2 * kSecond}) {
      SCOPED_TRACE(each);
      Flow flow({kRate, kRate / share});
      flow.run(2 * kSecond);
      flow.receive_each(each);
      EXPECT_TRUE(flow.lives_through(10 * kSecond)) << flow.pair().paths(0);
      flow.receive_each(0);
      EXPECT_TRUE(flow.lives_through(2 * kSecond)) << flow.pair().paths(0);
    }
  }
}

// A message at a time shows how long a rail takes, not what it could carry.
TEST(Rates, LittleTrafficIsNoSlowRail) {
  for (const std::size_t bytes : {kSimPayload + 1, kPiece / 4}) {
    SCOPED_TRACE(bytes);
    Flow flow({kRate, kRate});
    flow.run(2 * kSecond);
    flow.send(bytes);
    flow.limit(1);
    for (const std::size_t rail : {0U, 1U}) flow.pair().rail(rail).set_delay(2000);
    EXPECT_TRUE(flow.lives_through(10 * kSecond)) << flow.pair().paths(0);
  }
}

// Nor do little messages on one rail beside pieces that all go over the other.
TEST(Rates, LittleTrafficBesideMuchIsNoSlowRail) {
  Flow flow({kRate, kRate});
  flow.run(2 * kSecond);
  flow.send_little_ones();
  flow.pair().rail(1).set_rate(kRate / 12);
  EXPECT_TRUE(flow.lives_through(2 * kSecond)) << flow.pair().paths(0);
  flow.pair().rail(1).set_rate(kRate);
  EXPECT_TRUE(flow.lives_through(5 * kSecond)) << flow.pair().paths(0);
}

TEST(Rates, ARailThatIsFastAgainCarriesAgain) {
  Flow flow({kRate, kRate});
  flow.run(2 * kSecond);
  flow.pair().rail(1).set_rate(kRate / 1000);
  ASSERT_LT(flow.run_until(false, 1, 3 * kSlowTurns), 3 * kSlowTurns);
  flow.pair().rail(1).set_rate(kRate);
  EXPECT_LT(flow.run_until(true, 1, kSecond), kSecond / 4);
  flow.run(kSecond / 2);
  EXPECT_GT(flow.received_in(kSecond), 0.9 * 2 * kSecond / kTurnsPerPiece);
}

// Too slow to be given anything, not slow enough to be given up.
TEST(Rates, ARailThatWasNotWorthAPieceIsTriedAgain) {
  Flow flow({kRate, kRate});
  flow.run(2 * kSecond);
  flow.pair().rail(1).set_rate(kRate / 12);
  EXPECT_TRUE(flow.lives_through(2 * kSecond));
  flow.pair().rail(1).set_rate(kRate);
  flow.run(kSecond);
  EXPECT_GT(flow.received_in(kSecond), 0.9 * 2 * kSecond / kTurnsPerPiece);
}

// The peer is not there yet, say. What a rail carries then is no rate of its own.
TEST(Rates, RailsThatStoodStillAtTheBeginningAreAllUsed) {
  Flow flow({kRate / 5000, kRate / 5000});
  flow.limit(2);
  flow.run(kSecond / 2);
  for (std::size_t rail = 0; rail < 2; ++rail) flow.pair().rail(rail).set_rate(kRate);
  flow.run(kSecond);
  std::uint64_t before[2];
  for (std::size_t rail = 0; rail < 2; ++rail) before[rail] = flow.pair().rail(rail).delivered();
  const std::uint32_t all = flow.received_in(kSecond);
  for (std::size_t rail = 0; rail < 2; ++rail)
    EXPECT_GT(flow.pair().rail(rail).delivered() - before[rail], all / 3) << rail;
}

// Its neighbor was looked up for a while: what waited for that says nothing of the rail.
TEST(Rates, ARailThatConnectedLateIsAsFastAsItIs) {
  Flow flow({kRate, kRate / 5000});
  flow.pair().rail(1).set_connected(false);
  flow.run(kSecond * 6 / 10);
  flow.pair().rail(1).set_connected(true);
  flow.pair().rail(1).set_rate(kRate);
  flow.run(kSecond / 10);
  EXPECT_GT(flow.received_in(kSecond / 5), 0.85 * 2 * kSecond / 5 / kTurnsPerPiece);
}

// Its neighbor may have to be looked up. One that is never connected has its pieces posted again.
TEST(Rates, ARailThatIsNotConnectedIsWaitedForLongerThanOneThatFallsSilent) {
  Flow flow({kRate, kRate});
  flow.pair().rail(1).set_connected(false);
  flow.pair().cut(1, SimNetwork::Cut::silent);
  EXPECT_TRUE(flow.lives_through(5 * kSecond)) << flow.pair().paths(0);
  EXPECT_LT(flow.run_until(false, 1, 10 * kSecond), 6 * kSecond);
  EXPECT_GT(flow.received_in(kSecond), 0.9 * kSecond / kTurnsPerPiece);
}

// On each a piece takes longer than a rail may be silent, and a question waits behind it.
TEST(Rates, RailsThatAreBothTooSlowStillCarry) {
  Flow flow({kRate, kRate});
  flow.limit(2);
  flow.run(kSecond);
  for (std::size_t rail = 0; rail < 2; ++rail)
    flow.pair().rail(rail).set_rate((kPiece + 64) / (1.9 * kSecond));
  EXPECT_GT(flow.received_in(60 * kSecond), 20U) << flow.pair().paths(0);
}

// Whether it still moves now and then or seems to stand still.
void expect_tried_less_and_less(double factor) {
  SCOPED_TRACE(factor);
  Flow flow({kRate, kRate});
  flow.run(2 * kSecond);
  flow.pair().rail(1).set_rate(kRate / factor);
  for (int k = 0; k < 6; ++k) {
    ASSERT_LT(flow.run_until(false, 1, 6 * kSlowTurns), 6 * kSlowTurns);
    const int turns = flow.run_until(true, 1, 10 * kSecond);
    EXPECT_GE(turns, kSecond / 10 << k);
    EXPECT_LE(turns, (kSecond / 10 << k) + kSecond / 5);
  }
  // It holds for longer than the longest wait: forgotten.
  flow.pair().rail(1).set_rate(kRate);
  flow.run(16 * kSecond);
  ASSERT_TRUE(flow.pair().lives(1));
  flow.pair().rail(1).set_rate(kRate / 1000);
  ASSERT_LT(flow.run_until(false, 1, 6 * kSlowTurns), 6 * kSlowTurns);
  EXPECT_LT(flow.run_until(true, 1, 10 * kSecond), kSecond / 4);
}

TEST(Rates, ARailThatIsBackIsMeasuredAnew) {
  Flow flow({kRate, kRate});
  const auto is_measured = [&flow](std::size_t rail) {
    return flow.pair().path(0, rail).find("Mbit/s") != std::string::npos;
  };
  flow.run(kSecond);
  EXPECT_TRUE(is_measured(0) && is_measured(1));
  flow.pair().cut(0, SimNetwork::Cut::told);
  ASSERT_LT(flow.run_until(false, 0, kSecond), kSecond);
  flow.pair().rail(0).mend();
  ASSERT_LT(flow.run_until(true, 0, 10 * kSecond), 10 * kSecond);
  EXPECT_FALSE(is_measured(0));
  EXPECT_TRUE(is_measured(1));
  flow.run(kSecond);
  EXPECT_TRUE(is_measured(0));
}

TEST(Rates, ARailThatStaysSlowIsTriedLessAndLess) {
  for (const double factor : {500.0, 10'000.0}) expect_tried_less_and_less(factor);
}

}  // namespace
}  // namespace weft
