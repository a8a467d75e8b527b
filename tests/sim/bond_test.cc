// A bond over simulated rails: every notice arrives exactly once and in order, whatever is cut
// when. Each case follows from its seed; a failure names it.
#include "verbs/bond/bond.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/base/sanitized.h"
#include "tests/memory/preferred_node.h"
#include "tests/sim/pair.h"
#include "verbs/bond/address.h"
#include "verbs/memory/preference.h"

namespace weft {
namespace {

constexpr int kMostTurns = 200'000;

PairOptions options_of(std::uint64_t seed, std::size_t rails) {
  PairOptions options;
  for (std::size_t r = 0; r < rails; ++r)
    options.rails.push_back({seed * 31 + r, 1 + (seed + r * 7) % 20, 512});
  return options;
}

// Two rails, of so many bytes per turn each.
PairOptions rails_of_rates(double first, double second) {
  PairOptions options;
  options.rails = {{31, 8, 512, first}, {32, 8, 512, second}};
  options.slots = 16;
  return options;
}

// Small messages and pieces, a third of the former.
std::function<std::size_t(std::uint32_t)> sizes_of(std::uint64_t seed) {
  return [seed](std::uint32_t number) -> std::size_t {
    const bool small = (number * 2654435761U + seed) % 3 == 0;
    return small ? number % (kSimPayload + 1) : kSimPayload + 1 + number % 448;
  };
}

// A rail that is cut and mended again and again, while the streams go on over the others; how often
// it carried anything after it was mended.
void run_flapping(std::uint64_t seed, SimNetwork::Cut how, int& returns) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr std::uint32_t kMessages = 6000;
  Pair pair(options_of(seed, 2));
  std::mt19937_64 random(seed);
  std::vector<std::unique_ptr<PairStream>> streams;
  for (const Rank rank : {0, 1}) {
    streams.push_back(std::make_unique<PairStream>(pair.from(rank), pair.from(1 - rank), 1,
                                                   kMessages, sizes_of(seed)));
  }
  int next = static_cast<int>(random() % 1000);
  bool is_cut = false;
  int cuts = 0;
  std::uint64_t carried_before = 0;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    if (turn == next) {
      is_cut = !is_cut;
      if (is_cut) {
        if (cuts++ > 0 && pair.rail(0).delivered() > carried_before + 8) ++returns;
        pair.cut(0, how);
        carried_before = pair.rail(0).delivered();
      } else {
        pair.rail(0).mend();
      }
      next += 1000 + static_cast<int>(random() % 3000);
    }
    simulated_ns() += kTurnNs;
    pair.at(static_cast<Rank>(random() % 2)).progress();
    streams[random() % streams.size()]->turn();
    if (testing::Test::HasFatalFailure()) return;
    if (std::ranges::all_of(streams, [](const auto& stream) {
          return stream->done() && stream->locally_completed();
        })) {
      return;
    }
  }
  FAIL() << "not everything arrived in " << kMostTurns << " turns, " << cuts << " cuts";
}

// Streams in both directions on two channels, `cuts` happening at turns drawn from the seed.
void run_streams(std::uint64_t seed, std::size_t rails, std::size_t cuts, SimNetwork::Cut how) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Pair pair(options_of(seed, rails));
  std::mt19937_64 random(seed);
  std::vector<std::unique_ptr<PairStream>> streams;
  for (const Rank rank : {0, 1}) {
    for (std::uint32_t channel = 0; channel < kSimChannels; ++channel) {
      streams.push_back(std::make_unique<PairStream>(pair.from(rank), pair.from(1 - rank), channel,
                                                     120, sizes_of(seed + channel)));
    }
  }
  std::vector<int> when;
  for (std::size_t k = 0; k < cuts; ++k) when.push_back(static_cast<int>(random() % 400));
  for (int turn = 0; turn < kMostTurns; ++turn) {
    for (std::size_t k = 0; k < cuts; ++k) {
      if (when[k] == turn) pair.cut(k, how);
    }
    simulated_ns() += kTurnNs;
    // Whoever's turn it is, and one stream of all.
    pair.at(static_cast<Rank>(random() % 2)).progress();
    streams[random() % streams.size()]->turn();
    if (testing::Test::HasFatalFailure()) return;
    const bool all = std::ranges::all_of(
        streams, [](const auto& stream) { return stream->done() && stream->locally_completed(); });
    if (all) return;
  }
  FAIL() << "not everything arrived in " << kMostTurns << " turns";
}

// Windows connect to a peer's networks alone, where an operation has connected by the peer's whole
// address, with that of its memory. What was posted before still comes after a cut.
TEST(Bond, WholeAddressAndThatOfTheNetworksLeadToOneEndpoint) {
  constexpr std::uint32_t kMessages = 500;
  Pair pair(options_of(1, 2));
  bond::BondAddress theirs = bond::decode(pair.at(1).address(), 1).value();
  theirs.memory = "that of another machine";
  Endpoint& whole = *pair.at(0).connect(1, bond::encode(theirs)).value();
  PairStream stream(whole, pair.from(1), 1, kMessages, sizes_of(1));
  EXPECT_EQ(&pair.from(0), &whole);
  for (int turn = 0; turn < kMostTurns && !stream.done(); ++turn) {
    simulated_ns() += kTurnNs;
    if (turn == 100) pair.cut(1, SimNetwork::Cut::silent);
    pair.at(turn % 2).progress();
    stream.turn();
  }
  EXPECT_TRUE(stream.done()) << stream.sent() << " sent, " << stream.received() << " received; "
                             << pair.paths(0);
}

TEST(Bond, DeliversInOrderOverUnequalRails) {
  for (std::uint64_t seed = 1; seed <= seeds(60); ++seed) run_streams(seed, 1 + seed % 4, 0, {});
}

TEST(Bond, LosesNothingWhenRailsAreCut) {
  for (std::uint64_t seed = 1; seed <= seeds(150); ++seed) {
    const std::size_t rails = 2 + seed % 3;
    run_streams(seed, rails, 1 + seed % (rails - 1), SimNetwork::Cut::told);
  }
}

TEST(Bond, GivesUpARailThatIsSilentWhileAnotherAnswers) {
  for (std::uint64_t seed = 1; seed <= seeds(8); ++seed)
    run_streams(seed, 2, 1, SimNetwork::Cut::silent);
}

// Which a rail that fails ends. What no plan has divided keeps to it once all rails have been measured.
TEST(Bond, PiecesKeepToTheRailThatTheyShould) {
  for (const PreferFrom from : {PreferFrom::start, PreferFrom::measured}) {
    for (const std::size_t preferred : {0U, 1U}) {
      Pair pair(rails_of_rates(100, 100));
      pair.from(0).prefer_rail(1, static_cast<int>(preferred), from);
      PairStream stream(pair.from(0), pair.from(1), 1, 2000,
                        [](std::uint32_t) { return kSimPayload + 100; });
      std::uint64_t beside = 0;
      for (int turn = 0; turn < kMostTurns && !(stream.done() && stream.locally_completed());
           ++turn) {
        if (stream.received() == 1000) beside = pair.rail(1 - preferred).delivered();
        if (stream.received() == 1500 && pair.lives(preferred)) {
          EXPECT_EQ(pair.rail(1 - preferred).delivered(), beside);
          EXPECT_EQ(beside == 0, from == PreferFrom::start);
          pair.cut(preferred, SimNetwork::Cut::told);
        }
        simulated_ns() += kTurnNs;
        pair.at(turn % 2).progress();
        stream.turn();
      }
      EXPECT_TRUE(stream.done() && stream.locally_completed());
    }
  }
}

// A rail that is slower than it says is preferred in vain: the other one carries most.
TEST(Bond, NoPieceKeepsToARailThatIsMuchSlower) {
  for (const std::size_t slow : {0U, 1U}) {
    Pair pair(slow == 0 ? rails_of_rates(25, 100) : rails_of_rates(100, 25));
    pair.from(0).prefer_rail(1, static_cast<int>(slow), PreferFrom::measured);
    PairStream stream(pair.from(0), pair.from(1), 1, 2000,
                      [](std::uint32_t) { return kSimPayload + 100; });
    for (int turn = 0; turn < kMostTurns && !(stream.done() && stream.locally_completed());
         ++turn) {
      simulated_ns() += kTurnNs;
      pair.at(turn % 2).progress();
      stream.turn();
    }
    EXPECT_TRUE(stream.done() && stream.locally_completed());
    EXPECT_GT(pair.rail(1 - slow).delivered(), 2 * pair.rail(slow).delivered());
  }
}

// As long as all of them live: then what is left carries, used or not.
TEST(Bond, KeepsToTheMembersThatAreUsed) {
  Pair pair(options_of(3, 3));
  const std::array<int, 2> used = {0, 2};
  pair.from(0).use_members(used, std::array{0, 1, 2});
  PairStream stream(pair.from(0), pair.from(1), 1, 600,
                    [](std::uint32_t number) { return number % 2 == 0 ? kSimPayload + 100 : 8; });
  for (int turn = 0; turn < kMostTurns && !(stream.done() && stream.locally_completed()); ++turn) {
    if (stream.received() == 200 && pair.lives(2)) {
      EXPECT_EQ(pair.rail(1).delivered(), 0U);
      EXPECT_GT(pair.rail(2).delivered(), 0U);
      pair.cut(2, SimNetwork::Cut::told);
    }
    if (stream.received() == 400 && pair.lives(0)) {
      EXPECT_GT(pair.rail(1).delivered(), 50U) << "stands in for the one that failed";
      pair.cut(0, SimNetwork::Cut::told);
    }
    simulated_ns() += kTurnNs;
    pair.at(turn % 2).progress();
    stream.turn();
  }
  EXPECT_TRUE(stream.done() && stream.locally_completed());
  EXPECT_GT(pair.rail(1).delivered(), 0U);
}

// What is not used at both ends is not used.
TEST(Bond, KeepsToWhatThePeerUsesToo) {
  Pair pair(options_of(3, 3));
  pair.from(0).use_members(std::array{0, 1}, std::array{1, 2});
  PairStream stream(pair.from(0), pair.from(1), 1, 100,
                    [](std::uint32_t) { return kSimPayload + 100; });
  for (int turn = 0; turn < kMostTurns && !(stream.done() && stream.locally_completed()); ++turn) {
    simulated_ns() += kTurnNs;
    pair.at(turn % 2).progress();
    stream.turn();
  }
  EXPECT_TRUE(stream.done());
  EXPECT_EQ(pair.rail(0).delivered(), 0U);
  EXPECT_GT(pair.rail(1).delivered(), 0U);
  EXPECT_EQ(pair.rail(2).delivered(), 0U);
}

TEST(Bond, UsesAllWhereNoneOfThoseLeadsThere) {
  const std::vector<int> first = {0};
  const std::vector<int> second = {1};
  const std::vector<int> unknown = {7};
  for (const auto& [ours, theirs] : {std::pair(std::vector<int>(), first), std::pair(first, second),
                                     std::pair(unknown, unknown)}) {
    Pair pair(options_of(3, 2));
    pair.from(0).use_members(first, first);
    pair.from(0).use_members(ours, theirs);
    PairStream stream(pair.from(0), pair.from(1), 1, 100,
                      [](std::uint32_t) { return kSimPayload + 100; });
    for (int turn = 0; turn < kMostTurns && !(stream.done() && stream.locally_completed());
         ++turn) {
      simulated_ns() += kTurnNs;
      pair.at(turn % 2).progress();
      stream.turn();
    }
    EXPECT_TRUE(stream.done());
    EXPECT_GT(pair.rail(0).delivered(), 0U);
    EXPECT_GT(pair.rail(1).delivered(), 0U);
  }
}

// What a card writes to should be on the card's node.
TEST(Bond, OpensEachMemberOnItsNode) {
  if (!MemoryPreference(0).status().ok()) GTEST_SKIP() << "nodes cannot be asked for";
  std::vector<int> nodes;
  const auto fail = [&nodes](const AddressResolver&) -> Result<std::unique_ptr<Interface>> {
    nodes.push_back(preferred_node());
    return Status(Code::unavailable, "not here");
  };
  const BondMember memory{{}, {}, fail, 0};
  EXPECT_FALSE(open_bond({}, &memory, {}, {}).ok());
  EXPECT_FALSE(open_bond({}, nullptr, {{"sim", "", fail, 0}}, {}).ok());
  EXPECT_FALSE(open_bond({}, nullptr, {{"sim", "", fail, -1}}, {}).ok());
  EXPECT_EQ(nodes, (std::vector<int>{0, 0, -1}));
}

// One rank's card went away between discovery and use: the others are paired as if it had never been.
TEST(Bond, DoesWithoutANetworkThatCannotBeOpened) {
  for (std::size_t gone = 0; gone < 3; ++gone) {
    PairOptions options = options_of(7, 3);
    options.gone = gone;
    Pair pair(options);
    PairStream stream(pair.from(0), pair.from(1), 1, 300,
                      [](std::uint32_t) { return std::size_t{256}; });
    for (int turn = 0; turn < kMostTurns && !(stream.done() && stream.locally_completed());
         ++turn) {
      simulated_ns() += kTurnNs;
      pair.at(turn % 2).progress();
      stream.turn();
    }
    EXPECT_TRUE(stream.done());
    EXPECT_EQ(pair.left_out(), std::vector<std::size_t>{gone});
    for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(pair.rail(k).delivered() > 0, k != gone) << gone;
  }
}

TEST(Bond, DoesNotGoOnWithoutAnyNetworkOrWithAWrongArgument) {
  const auto failing = [](Code code) {
    return [code](const AddressResolver&) -> Result<std::unique_ptr<Interface>> {
      return Status(code, "not here");
    };
  };
  SimNetwork network({1, 1, 512});
  const auto works = [&network](const AddressResolver&) {
    InterfaceOptions options;
    options.channels = kSimChannels;
    options.payload_bytes = kSimPayload;
    return Result<std::unique_ptr<Interface>>(network.open(0, options, "sim"));
  };
  BondOptions options;
  options.channels = kSimChannels;
  options.payload_bytes = kSimPayload;
  const auto code_of = [&options](std::vector<BondMember> members) {
    return open_bond(options, nullptr, std::move(members), {}).status().code();
  };
  EXPECT_EQ(code_of({{"sim", "a", works}, {"sim", "b", failing(Code::unavailable)}}),
            Code::unavailable);
  int times = 0;
  options.left_out = [&times](std::size_t, const Status&) { ++times; };
  EXPECT_EQ(code_of({{"sim", "a", works}, {"sim", "b", failing(Code::unavailable)}}), Code::ok);
  EXPECT_EQ(times, 1);
  EXPECT_EQ(code_of({{"sim", "a", works}, {"sim", "b", failing(Code::invalid_argument)}}),
            Code::invalid_argument);
  EXPECT_EQ(
      code_of({{"sim", "a", failing(Code::system)}, {"sim", "b", failing(Code::unavailable)}}),
      Code::system);
}

// A rank that runs nothing takes no turns and answers nothing, for hours.
TEST(Bond, AnIdlePeerIsAskedLessAndLess) {
  PairOptions options = options_of(1, 2);
  options.slots = 64;
  Pair pair(options);
  PairStream note(pair.from(0), pair.from(1), 0, 1, [](std::uint32_t) { return std::size_t{8}; });
  note.turn();
  const int silences = 40;
  for (std::int64_t ms = 0; ms < silences * options.silence_ms * 2; ++ms) {
    simulated_ns() += 1'000'000;
    for (int turn = 0; turn < 40; ++turn) pair.at(0).progress();
    pair.arrive(1);
  }
  EXPECT_TRUE(pair.lives(0) && pair.lives(1));
  for (int turn = 0; turn < 1000 && !(note.done() && note.locally_completed()); ++turn) {
    simulated_ns() += kTurnNs;
    pair.at(turn % 2).progress();
    note.take();
  }
  EXPECT_TRUE(note.done() && note.locally_completed());
  // The note, and for each doubling of the time a question over both rails and the answers.
  EXPECT_LE(pair.rail(0).delivered() + pair.rail(1).delivered(), 1 + 7 * 2 * 2U);
}

TEST(Bond, WhatADeadRailStillDeliversLandsNowhere) {
  for (std::uint64_t seed = 1; seed <= seeds(8); ++seed)
    run_streams(seed, 2, 1, SimNetwork::Cut::late);
}

TEST(Bond, ARailThatIsMendedCarriesAgain) {
  int returns = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    run_flapping(seed, SimNetwork::Cut::told, returns);
  EXPECT_GT(returns, 10);
}

TEST(Bond, ARailThatIsMendedUnseenCarriesAgain) {
  int returns = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    run_flapping(seed, SimNetwork::Cut::silent, returns);
  EXPECT_GT(returns, 10);
}

TEST(Bond, WhatAnEarlierLifeOfARailDeliversLandsNowhere) {
  int returns = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    run_flapping(seed, SimNetwork::Cut::late, returns);
  EXPECT_GT(returns, 10);
}

// The receiver takes nothing, so what the rail had cannot be posted again before it fails again.
TEST(Bond, ARailThatFailsTwiceBeforeItsNoticesWentOutLosesNone) {
  Pair pair(options_of(1, 2));
  PairStream stream(pair.from(0), pair.from(1), 1, 50,
                    [](std::uint32_t) { return kSimPayload + 1; });
  const auto wait_until = [&](bool lives) {
    int turn = 0;
    for (; turn < 10'000 && pair.lives(1) != lives; ++turn) {
      simulated_ns() += kTurnNs;
      pair.at(turn % 2).progress();
    }
    for (int more = 0; more < 200; ++more) pair.at(more % 2).progress();
    ASSERT_LT(turn, 10'000);
  };
  for (int k = 0; k < 8; ++k) stream.turn();
  ASSERT_EQ(stream.sent(), 8U);
  for (int cut = 0; cut < 2; ++cut) {
    pair.cut(1, SimNetwork::Cut::told);
    wait_until(false);
    pair.rail(1).mend();
    wait_until(true);
  }
  for (int turn = 0; turn < 10'000 && !(stream.done() && stream.locally_completed()); ++turn) {
    simulated_ns() += kTurnNs;
    pair.at(turn % 2).progress();
    stream.turn();
  }
  EXPECT_TRUE(stream.done() && stream.locally_completed()) << stream.received();
}

TEST(Bond, TheLastRailsEndIsTheEndpoints) {
  Pair pair(options_of(7, 2));
  Endpoint& end = pair.from(0);
  (void)pair.from(1);
  pair.cut(0, SimNetwork::Cut::told);
  pair.cut(1, SimNetwork::Cut::told);
  pair.at(0).progress();
  EXPECT_FALSE(end.failure().ok());
  EXPECT_NE(end.failure().text().find("rank 1"), std::string_view::npos);
  EXPECT_EQ(end.post_notice(1, {}, {}), Posted::full);
}

// Addresses come from the store, so from other processes.
TEST(Bond, HostileAddressesAreRefusedWithoutAFault) {
  Pair pair(options_of(1, 3));
  const std::string good = pair.at(1).address();
  std::mt19937_64 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string bad = good.substr(0, random() % (good.size() + 1));
    for (std::uint64_t change = random() % 4; change != 0 && !bad.empty(); --change)
      bad[random() % bad.size()] = static_cast<char>(random());
    const Result<std::string> memory = memory_address(bad);
    if (memory.ok()) continue;
    EXPECT_EQ(memory.status().code(), Code::mismatch);
    EXPECT_FALSE(pair.at(0).connect(1, bad).ok());
  }
}

}  // namespace
}  // namespace weft
