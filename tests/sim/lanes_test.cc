// Two lanes of two ranks: each lane has a bond of its own over the same two rails, and prefers one
// of them. What the bonds share are the wires. From a seed: the lanes take turns in any order,
// operations begin on both at once, and a rail is cut, slows down and comes back while stripes are
// on their way. Every stripe comes whole and in order, and no rail is blamed for the other lane's
// traffic.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "tests/base/sanitized.h"
#include "tests/sim/pair.h"

namespace weft {
namespace {

constexpr std::size_t kLanes = 2;
constexpr std::size_t kPiece = 4096;
constexpr double kRate = 500;               // bytes per turn of a wire in each direction
constexpr std::uint32_t kStripePieces = 8;  // of one operation
constexpr int kMostTurns = 2'000'000;
constexpr int kMeasured = 10'000;  // turns after which each lane has measured both rails

PairOptions rails_of(std::uint64_t seed) {
  PairOptions options;
  for (std::uint64_t rail = 0; rail < 2; ++rail)
    options.rails.push_back({seed * 17 + rail, 8, kPiece, kRate});
  options.slots = 16;
  options.silence_ms = 200;
  options.return_ms = 50;
  options.slow_ms = 400;
  return options;
}

class Lanes {
 public:
  explicit Lanes(std::uint64_t seed, std::uint32_t operations)
      : random_(seed),
        pairs_{std::make_unique<Pair>(rails_of(seed)),
               std::make_unique<Pair>(rails_of(seed + 1000))} {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      for (const Rank rank : {0, 1}) {
        Endpoint& sender = pairs_[lane]->from(rank);
        sender.prefer_rail(1, static_cast<int>(lane), PreferFrom::measured);
        streams_.push_back(std::make_unique<PairStream>(sender, pairs_[lane]->from(1 - rank), 1,
                                                        operations * kStripePieces,
                                                        [](std::uint32_t) { return kPiece; }));
      }
    }
  }

  // One lane takes a turn. An operation ends on all lanes before the next begins.
  void turn() {
    simulated_ns() += kTurnNs;
    share_wires();
    const std::size_t lane = below(kLanes);
    pairs_[lane]->at(static_cast<Rank>(below(2))).progress();
    pairs_[1 - lane]->rail(0).pass();
    pairs_[1 - lane]->rail(1).pass();
    PairStream& stream = *streams_[2 * lane + below(2)];
    if (stream.sent() < limit_) {
      stream.turn();
    } else {
      stream.take();
    }
    const auto is_over = [this](const auto& each) { return each->received() == limit_; };
    if (std::ranges::all_of(streams_, is_over)) limit_ += kStripePieces;
  }
  [[nodiscard]] bool done() const {
    return std::ranges::all_of(streams_, [](const auto& each) { return each->done(); });
  }
  void run_to_end(const std::function<void(int turn)>& event) {
    for (int turn = 0; turn < kMostTurns && !done(); ++turn) {
      event(turn);
      this->turn();
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_TRUE(done()) << pairs_[0]->paths(0) << "; " << pairs_[1]->paths(0);
  }

  // How fast the wire of a rail is, of kRate.
  void set_speed(std::size_t rail, double speed) { speeds_[rail] = speed; }
  void cut(std::size_t rail, SimNetwork::Cut how) {
    for (const auto& pair : pairs_) pair->cut(rail, how);
  }
  void mend(std::size_t rail) {
    for (const auto& pair : pairs_) pair->rail(rail).mend();
  }
  [[nodiscard]] bool is_cut(std::size_t rail) { return pairs_[0]->rail(rail).is_cut(); }
  [[nodiscard]] Pair& lane(std::size_t lane) { return *pairs_[lane]; }
  std::size_t below(std::size_t end) { return random_() % end; }

 private:
  // A wire carries what both lanes send over it: each gets half while the other has something there.
  void share_wires() {
    std::array<bool, kLanes> is_busy{};
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      is_busy[lane] = streams_[2 * lane]->sent() != streams_[2 * lane]->received() ||
                      streams_[2 * lane + 1]->sent() != streams_[2 * lane + 1]->received();
    }
    const int busy = is_busy[0] && is_busy[1] ? 2 : 1;
    for (std::size_t rail = 0; rail < 2; ++rail) {
      const double rate = kRate * speeds_[rail] / busy;
      if (rate == rates_[rail]) continue;
      rates_[rail] = rate;
      for (const auto& pair : pairs_) pair->rail(rail).set_rate(rate);
    }
  }

  std::mt19937_64 random_;
  std::array<std::unique_ptr<Pair>, kLanes> pairs_;
  std::vector<std::unique_ptr<PairStream>> streams_;
  std::uint32_t limit_ = kStripePieces;
  std::array<double, 2> speeds_{1, 1};
  std::array<double, 2> rates_{kRate, kRate};
};

TEST(Lanes, EachFillsItsRailAndNoneIsGivenUp) {
  Lanes lanes(1, 300);
  std::array<std::array<std::uint64_t, 2>, kLanes> before{};  // while rates are being measured
  lanes.run_to_end([&](int turn) {
    if (turn == kMeasured) {
      for (const std::size_t lane : {0, 1}) {
        for (const std::size_t rail : {0, 1})
          before[lane][rail] = lanes.lane(lane).rail(rail).delivered();
      }
    }
    if (turn % 100 != 0) return;
    for (const std::size_t lane : {0, 1})
      ASSERT_TRUE(lanes.lane(lane).lives(0) && lanes.lane(lane).lives(1)) << "turn " << turn;
  });
  for (const std::size_t lane : {0, 1}) {
    const auto since = [&](std::size_t rail) {
      return static_cast<double>(lanes.lane(lane).rail(rail).delivered() - before[lane][rail]);
    };
    const double own = since(lane);
    const double other = since(1 - lane);
    EXPECT_GT(own, 5 * other) << "lane " << lane;
  }
}

TEST(Lanes, StripesSurviveRailsThatFailInTheMiddle) {
  const std::uint64_t last = seeds(40);
  for (std::uint64_t seed = 1; seed <= last; ++seed) {
    SCOPED_TRACE(seed);
    Lanes lanes(seed, 60);
    int next = 200;
    lanes.run_to_end([&](int turn) {
      if (turn != next) return;
      next += 500 + static_cast<int>(lanes.below(6000));
      const std::size_t rail = lanes.below(2);
      switch (lanes.below(4)) {
        case 0:  // one rail at a time
          if (!lanes.is_cut(1 - rail) && !lanes.is_cut(rail))
            lanes.cut(rail, static_cast<SimNetwork::Cut>(lanes.below(4)));
          break;
        case 1:
          lanes.set_speed(rail, 1.0 / static_cast<double>(1 + lanes.below(30)));
          break;
        default:
          lanes.set_speed(rail, 1);
          lanes.mend(rail);
          break;
      }
    });
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace weft
