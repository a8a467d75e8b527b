// A bond over simulated rails: every notice arrives exactly once and in order, whatever is cut
// when. Each case follows from its seed; a failure names it.
#include "verbs/bond/bond.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/sim/network.h"

namespace weft {
namespace {

constexpr std::uint32_t kChannels = 3;
constexpr int kMostTurns = 200'000;
// Time is a count, too: of turns, each so long.
constexpr std::int64_t kTurnNs = 100'000;

std::int64_t& simulated_ns() {
  static std::int64_t now = 0;
  return now;
}

InterfaceOptions options_of(Rank rank) {
  InterfaceOptions options;
  options.channels = kChannels;
  options.slots = 4;
  options.payload_bytes = 64;
  options.context = static_cast<std::uint16_t>(rank >= 0 ? 1 : 0);
  return options;
}

// Two ranks joined by `rails` simulated rails.
class Pair {
 public:
  Pair(std::uint64_t seed, std::size_t rails) {
    for (std::size_t r = 0; r < rails; ++r) {
      networks_.push_back(
          std::make_unique<SimNetwork>(SimOptions{seed * 31 + r, 1 + (seed + r * 7) % 20, 512}));
    }
    for (const Rank rank : {0, 1}) {
      std::vector<BondMember> members;
      for (std::size_t r = 0; r < rails; ++r) {
        members.push_back({"sim", "rail" + std::to_string(r), [this, rank, r](AddressResolver) {
                             std::unique_ptr<Interface> opened = networks_[r]->open(
                                 rank, options_of(rank), "sim" + std::to_string(r));
                             members_[static_cast<std::size_t>(rank)].push_back(opened.get());
                             return Result<std::unique_ptr<Interface>>(std::move(opened));
                           }});
      }
      BondOptions options;
      options.rank = rank;
      options.channels = kChannels;
      options.payload_bytes = 64;
      options.silence_ms = 30;
      options.return_ms = 20;
      options.clock = [] { return simulated_ns(); };
      ends_[static_cast<std::size_t>(rank)] =
          open_bond(options, nullptr, std::move(members), [this](Rank peer) {
            return Result<std::string>(ends_[static_cast<std::size_t>(peer)]->address());
          }).value();
    }
  }

  [[nodiscard]] Interface& at(Rank rank) { return *ends_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Endpoint& from(Rank rank) {
    return *at(rank).connect(1 - rank, at(1 - rank).address()).value();
  }
  void cut(std::size_t rail, SimNetwork::Cut how) {
    networks_[rail]->cut(*members_[0][rail], *members_[1][rail], how);
  }
  void mend(std::size_t rail) { networks_[rail]->mend(); }
  [[nodiscard]] std::uint64_t delivered(std::size_t rail) { return networks_[rail]->delivered(); }

 private:
  std::vector<std::unique_ptr<SimNetwork>> networks_;
  std::vector<Interface*> members_[2];
  std::unique_ptr<Interface> ends_[2];
};

std::byte byte_of(std::uint32_t number, std::size_t i) {
  return static_cast<std::byte>(number * 131 + i * 7);
}

// Sends `total` numbered messages over a channel, small ones and pieces, and checks what comes.
class Stream {
 public:
  Stream(Endpoint& sender, Endpoint& receiver, std::uint32_t channel, std::uint32_t total,
         std::uint64_t seed)
      : sender_(sender), receiver_(receiver), channel_(channel), total_(total), seed_(seed) {}

  [[nodiscard]] bool done() const { return sent_ == total_ && received_ == total_; }
  [[nodiscard]] bool settled() { return sender_.settled(channel_) == total_; }

  void turn() {
    if (sent_ < total_) post();
    forget();
    const Notice notice = receiver_.front(channel_);
    if (notice.header == nullptr) return;
    const std::size_t bytes = size_of_message(received_);
    ASSERT_EQ(notice.header->piece, received_);
    ASSERT_EQ(notice.header->bytes, bytes);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(notice.payload[i], byte_of(received_, i));
    receiver_.release(channel_);
    ++received_;
  }

 private:
  [[nodiscard]] std::size_t size_of_message(std::uint32_t number) const {
    return (number * 2654435761U + seed_) % 3 == 0 ? number % 65 : 65 + number % 448;
  }
  void post() {
    std::vector<std::byte> bytes(size_of_message(sent_));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_of(sent_, i);
    WireHeader header;
    header.kind = NoticeKind::data;
    header.form = PieceForm::payload;
    header.piece = sent_;
    header.bytes = static_cast<std::uint32_t>(bytes.size());
    const bool small = bytes.size() <= 64;
    const Posted posted = small ? sender_.post_notice(channel_, header, bytes)
                                : sender_.post_piece(channel_, header, bytes);
    if (posted == Posted::full) return;
    sources_.push_back(std::move(bytes));
    ++sent_;
  }
  // A settled source belongs to the caller again, who writes something else there.
  void forget() {
    const std::uint64_t settled = sender_.settled(channel_);
    for (; forgotten_ < settled; ++forgotten_) {
      std::fill(sources_.front().begin(), sources_.front().end(), std::byte{0xEE});
      spoilt_.push_back(std::move(sources_.front()));
      sources_.pop_front();
    }
  }

  Endpoint& sender_;
  Endpoint& receiver_;
  std::uint32_t channel_, total_;
  std::uint64_t seed_;
  std::uint32_t sent_ = 0, received_ = 0;
  std::uint64_t forgotten_ = 0;
  std::deque<std::vector<std::byte>> sources_;
  std::vector<std::vector<std::byte>> spoilt_;
};

// A rail that is cut and mended again and again, while the streams go on over the others; how often
// it carried anything after it was mended.
void run_flapping(std::uint64_t seed, SimNetwork::Cut how, int& returns) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr std::uint32_t kMessages = 6000;
  Pair pair(seed, 2);
  std::mt19937_64 random(seed);
  std::vector<std::unique_ptr<Stream>> streams;
  for (const Rank rank : {0, 1}) {
    streams.push_back(
        std::make_unique<Stream>(pair.from(rank), pair.from(1 - rank), 1, kMessages, seed));
  }
  int next = static_cast<int>(random() % 1000);
  bool is_cut = false;
  int cuts = 0;
  std::uint64_t carried_before = 0;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    if (turn == next) {
      is_cut = !is_cut;
      if (is_cut) {
        if (cuts++ > 0 && pair.delivered(0) > carried_before + 8) ++returns;
        pair.cut(0, how);
        carried_before = pair.delivered(0);
      } else {
        pair.mend(0);
      }
      next += 1000 + static_cast<int>(random() % 3000);
    }
    simulated_ns() += kTurnNs;
    pair.at(static_cast<Rank>(random() % 2)).progress();
    streams[random() % streams.size()]->turn();
    if (testing::Test::HasFatalFailure()) return;
    if (std::ranges::all_of(
            streams, [](const auto& stream) { return stream->done() && stream->settled(); })) {
      return;
    }
  }
  FAIL() << "not everything arrived in " << kMostTurns << " turns, " << cuts << " cuts";
}

// Streams in both directions on two channels, `cuts` happening at turns drawn from the seed.
void run_streams(std::uint64_t seed, std::size_t rails, std::size_t cuts, SimNetwork::Cut how) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Pair pair(seed, rails);
  std::mt19937_64 random(seed);
  std::vector<std::unique_ptr<Stream>> streams;
  for (const Rank rank : {0, 1}) {
    for (const std::uint32_t channel : {1U, 2U}) {
      streams.push_back(std::make_unique<Stream>(pair.from(rank), pair.from(1 - rank), channel, 120,
                                                 seed + channel));
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
        streams, [](const auto& stream) { return stream->done() && stream->settled(); });
    if (all) return;
  }
  FAIL() << "not everything arrived in " << kMostTurns << " turns";
}

TEST(Bond, DeliversInOrderOverUnequalRails) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) run_streams(seed, 1 + seed % 4, 0, {});
}

TEST(Bond, LosesNothingWhenRailsAreCut) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const std::size_t rails = 2 + seed % 3;
    run_streams(seed, rails, 1 + seed % (rails - 1), SimNetwork::Cut::told);
  }
}

TEST(Bond, GivesUpARailThatIsSilentWhileAnotherAnswers) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) run_streams(seed, 2, 1, SimNetwork::Cut::silent);
}

TEST(Bond, WhatADeadRailStillDeliversLandsNowhere) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) run_streams(seed, 2, 1, SimNetwork::Cut::late);
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

TEST(Bond, TheLastRailsEndIsTheEndpoints) {
  Pair pair(7, 2);
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
  Pair pair(1, 3);
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
