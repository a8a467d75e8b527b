// A bond whose ports were paired wrongly, as names do not tell which of them reach each other: paths
// are led over those that do, and every message still comes once, whole and in order. Ranks have
// several interfaces to one simulated network; each case follows from its seed, and a failure names
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "tests/base/sanitized.h"
#include "tests/sim/pair.h"

namespace weft {
namespace {

constexpr std::int64_t kSilenceMs = 30;
constexpr std::int64_t kReturnMs = 20;
constexpr int kSilenceTurns = static_cast<int>(kSilenceMs * 1'000'000 / kTurnNs);

// Whether a port of rank 0 and one of rank 1 reach each other now.
using Reaches = std::function<bool(std::size_t ours, std::size_t theirs)>;
// Which port of rank 1 each of rank 0 reaches; those of rank 1 that are not named reach none.
using Cables = std::vector<std::size_t>;

class Ports {
 public:
  // How many rank 0 has, and how many rank 1.
  Ports(std::uint64_t seed, std::size_t ours, std::size_t theirs, const Reaches& reaches)
      : random_(seed), network_({seed, 1 + seed % 20, 512}) {
    open(0, ours);
    open(1, theirs);
    network_.set_reach([ours, reaches](std::size_t a, std::size_t b) {
      return reaches(std::min(a, b), std::max(a, b) - ours);
    });
    for (const Rank rank : {0, 1}) {
      for (std::uint32_t channel = 0; channel < kSimChannels; ++channel) {
        streams_.push_back(std::make_unique<PairStream>(
            from(rank), from(1 - rank), channel, kMessages,
            [seed](std::uint32_t number) -> std::size_t {
              const bool small = (number * 2654435761U + seed) % 3 == 0;
              return small ? number % (kSimPayload + 1) : kSimPayload + 1 + number % 448;
            }));
      }
    }
  }

  [[nodiscard]] Interface& end(Rank rank) { return *ends_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Endpoint& from(Rank rank) {
    return *end(rank).connect(1 - rank, end(1 - rank).address()).value();
  }
  // Until all messages have come and all is known of it, `most` turns at most.
  [[nodiscard]] bool run(int most) {
    for (int turn = 0; turn < most && !testing::Test::HasFatalFailure(); ++turn) {
      step();
      if (std::ranges::all_of(streams_,
                              [](const auto& s) { return s->done() && s->locally_completed(); }))
        return true;
    }
    return false;
  }
  void step() {
    simulated_ns() += kTurnNs;
    ends_[random_() % 2]->progress();
    streams_[random_() % streams_.size()]->turn();
  }

  // One rank turns, and nobody posts or takes.
  void turn(Rank rank) {
    simulated_ns() += kTurnNs;
    end(rank).progress();
  }

  [[nodiscard]] bool all_live() {
    const std::string text = paths(0) + paths(1);
    return text.find("given up") == std::string::npos &&
           text.find("coming back") == std::string::npos;
  }
  // Whether both have paths that are led and not proven yet.
  [[nodiscard]] bool are_led() {
    return paths(0).find("coming back") != std::string::npos &&
           paths(1).find("coming back") != std::string::npos;
  }

  [[nodiscard]] SimNetwork& network() { return network_; }
  [[nodiscard]] std::string paths(Rank rank) { return from(rank).describe(); }
  // Messages that all streams have brought.
  [[nodiscard]] std::uint64_t received() const {
    return std::accumulate(streams_.begin(), streams_.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const auto& s) { return sum + s->received(); });
  }
  void cut(std::size_t ours, std::size_t theirs) {
    network_.cut(*members_[0][ours], *members_[1][theirs], SimNetwork::Cut::silent);
  }

 private:
  static constexpr std::uint32_t kMessages = 300;

  void open(Rank rank, std::size_t ports) {
    const auto r = static_cast<std::size_t>(rank);
    InterfaceOptions options;
    options.channels = kSimChannels;
    options.payload_bytes = kSimPayload;
    options.context = 1;
    std::vector<BondMember> members;
    for (std::size_t k = 0; k < ports; ++k) {
      members.push_back({"sim", "one network", [this, rank, r, k, options](AddressResolver) {
                           auto opened = network_.open(rank, options, "sim" + std::to_string(k));
                           members_[r].push_back(opened.get());
                           return Result<std::unique_ptr<Interface>>(std::move(opened));
                         }});
    }
    BondOptions bond;
    bond.rank = rank;
    bond.channels = kSimChannels;
    bond.payload_bytes = kSimPayload;
    bond.silence_ms = kSilenceMs;
    bond.return_ms = kReturnMs;
    bond.clock = [] { return simulated_ns(); };
    ends_[r] = open_bond(bond, nullptr, std::move(members), [this](Rank peer) {
                 return Result<std::string>(end(peer).address());
               }).value();
  }

  std::mt19937_64 random_;
  SimNetwork network_;
  std::vector<Interface*> members_[2];
  std::unique_ptr<Interface> ends_[2];
  std::vector<std::unique_ptr<PairStream>> streams_;  // those from rank 0 first
};

// So long for each port that may have to be tried, and for a path to come back.
int turns_for(std::size_t ports) {
  return static_cast<int>(ports + 2) * 12 * kSilenceTurns + 40'000;
}

void expect_all(std::uint64_t seed, const Cables& cables, std::size_t theirs) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Ports ranks(seed, cables.size(), theirs,
              [&cables](std::size_t ours, std::size_t other) { return cables[ours] == other; });
  EXPECT_TRUE(ranks.run(turns_for(std::max(cables.size(), theirs))))
      << ranks.paths(0) << "; " << ranks.paths(1) << "; " << ranks.received() << " came";
}

TEST(PortsTest, NoneIsPairedRightly) {
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) expect_all(seed, {1, 0}, 2);
}

TEST(PortsTest, SomeArePairedRightly) {
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) expect_all(seed, {0, 2, 1}, 3);
}

// A path of one port, and both of the peer's.
TEST(PortsTest, OneIsTooMany) {
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
    expect_all(seed, {1}, 2);
    expect_all(seed, {9, 0}, 1);
    expect_all(seed, {2, 0}, 3);
  }
}

TEST(PortsTest, AnyOrderOfMany) {
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
    Cables cables(2 + seed % 5);
    std::iota(cables.begin(), cables.end(), 0);
    std::shuffle(cables.begin(), cables.end(), std::mt19937_64(seed));
    expect_all(seed, cables, cables.size());
  }
}

// A peer that starts late and answers on other ports a moment before it does on those that were
// paired keeps the pairs.
TEST(PortsTest, ThoseThatWerePairedComeFirst) {
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    bool is_there = false;
    bool is_there_for_others = false;
    Ports ranks(seed, 2, 2, [&](std::size_t ours, std::size_t theirs) {
      return ours == theirs ? is_there : is_there_for_others;
    });
    for (int turn = 0; turn < 20 * kSilenceTurns; ++turn) ranks.step();
    is_there_for_others = true;
    for (int turn = 0; turn < kSilenceTurns / 2; ++turn) ranks.step();
    is_there = true;
    EXPECT_TRUE(ranks.run(turns_for(2)));
    for (const Rank rank : {0, 1})
      EXPECT_EQ(ranks.paths(rank).find("2 rails: sim0"), 0U) << ranks.paths(rank);
  }
}

// It waits for its peer as long as the peer needs.
TEST(PortsTest, ThePeerIsBusyWhileItsPathIsLed) {
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const bool has_two = seed % 2 == 0;
    Ports ranks(seed, has_two ? 2 : 1, 2,
                [](std::size_t ours, std::size_t theirs) { return ours != theirs; });
    for (int turn = 0; turn < 50 * kSilenceTurns; ++turn) ranks.turn(0);
    EXPECT_TRUE(ranks.run(turns_for(2))) << ranks.paths(0) << "; " << ranks.paths(1);
  }
}

// Nobody calls for a long time right after paths were led, while another lives or not: they are led
// and proven all the same.
TEST(PortsTest, NothingHappensWhileAPathIsLed) {
  for (std::uint64_t seed = 1; seed <= seeds(40); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Cables cables = seed % 2 == 0 ? Cables{0, 1, 3} : Cables{1, 2, 0};
    Ports ranks(seed, 3, 4,
                [&cables](std::size_t ours, std::size_t theirs) { return cables[ours] == theirs; });
    ranks.network().set_delay(1000);  // the first words over it are still on their way
    for (int turn = 0; !ranks.are_led() && turn < turns_for(3); ++turn) ranks.step();
    ASSERT_TRUE(ranks.are_led());
    ranks.network().set_delay(10);
    simulated_ns() += 20 * kReturnMs * 1'000'000;
    EXPECT_TRUE(ranks.run(turns_for(3))) << ranks.paths(0) << "; " << ranks.paths(1);
    for (int turn = 0; turn < 20 * kSilenceTurns; ++turn) ranks.step();
    EXPECT_TRUE(ranks.all_live()) << ranks.paths(0) << "; " << ranks.paths(1);
  }
}

// Which members are used is asked of the paths as they are, not as they were paired.
TEST(PortsTest, TheMembersThatAreUsedAreThoseOfNow) {
  Ports ranks(3, 2, 2, [](std::size_t ours, std::size_t theirs) { return ours != theirs; });
  for (const Rank rank : {0, 1})
    ranks.from(rank).use_members(std::array{rank}, std::array{1 - rank});
  EXPECT_TRUE(ranks.run(turns_for(2)));
  EXPECT_TRUE(ranks.all_live());
  for (const Rank rank : {0, 1}) {
    const std::string paths = ranks.paths(rank);
    const std::string unused = "sim" + std::to_string(1 - rank);
    EXPECT_EQ(paths.find(unused + " ("), std::string::npos) << paths;
    EXPECT_NE(paths.find("Mbit/s"), std::string::npos) << paths;
  }
}

// A path that was led over other ports fails and comes back like any other.
TEST(PortsTest, WhatWasFoundFailsAndComesBack) {
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Ports ranks(seed, 2, 2, [](std::size_t ours, std::size_t theirs) { return ours != theirs; });
    for (int turn = 0; ranks.received() < 200 && turn < turns_for(2); ++turn) ranks.step();
    ASSERT_GE(ranks.received(), 200U);
    ranks.cut(0, 1);
    for (int turn = 0; turn < 8 * kSilenceTurns; ++turn) ranks.step();
    ranks.network().mend();
    EXPECT_TRUE(ranks.run(turns_for(2))) << ranks.paths(0) << "; " << ranks.paths(1);
  }
}

}  // namespace
}  // namespace weft
