// Matching by name on edges, over a simulated network: messages between two ranks keep their order,
// everything else arrives in any order. Each request ends once; what a rank sends on an edge is what
// the other end receives there, in the same order.
#include "scheduler/match/match.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "tests/base/sanitized.h"

namespace weft {
namespace {

class Network {
 public:
  Network(int size, std::uint64_t seed, std::size_t fusion_bytes = 4096,
          std::uint64_t window = 1 << 17)
      : random_(seed) {
    for (int rank = 0; rank < size; ++rank) {
      matchers_.push_back(
          std::make_unique<EdgeMatcher>(MatchOptions{.rank = rank,
                                                     .size = size,
                                                     .fusion = {fusion_bytes, fusion_bytes},
                                                     .ask_ns = 1000,
                                                     .window = window}));
    }
    open_.resize(static_cast<std::size_t>(size));
    ended_.resize(static_cast<std::size_t>(size));
    errors_.resize(static_cast<std::size_t>(size));
  }

  // Names of requests are "name@round" in what ended().
  Status submit(int rank, MatchRequest request) {
    request.id = next_id_++;
    Open open{request.name, request.sources.size() + request.destinations.size()};
    open_[at(rank)][request.id] = open;
    if (open.left == 0) end(rank, request.id);
    return matcher(rank).submit(std::move(request), now_);
  }
  bool deliver_one() {
    if (under_way_.empty()) return false;
    const std::size_t which = random_() % under_way_.size();
    const auto [from, to] = under_way_[which];
    under_way_[which] = under_way_.back();
    under_way_.pop_back();
    auto& queue = wires_[{from, to}];
    const std::vector<std::byte> bytes = std::move(queue.front());
    queue.pop_front();
    EXPECT_TRUE(matcher(to).receive(from, bytes, now_).ok());
    step(to);
    return true;
  }
  void step(int rank) {
    matcher(rank).step(now_);
    collect(rank);
  }
  void settle() {
    for (int rank = 0; rank < static_cast<int>(matchers_.size()); ++rank) step(rank);
    while (deliver_one()) {
    }
  }
  void pass(std::int64_t ns) { now_ += ns; }
  [[nodiscard]] EdgeMatcher& matcher(int rank) { return *matchers_[at(rank)]; }
  [[nodiscard]] const std::vector<std::string>& ended(int rank) { return ended_[at(rank)]; }
  [[nodiscard]] const std::vector<std::string>& errors(int rank) { return errors_[at(rank)]; }
  [[nodiscard]] std::mt19937_64& random() { return random_; }
  // What was announced on every edge is what was sent there.
  void expect_streams_agree() const {
    for (const auto& [edge, sent] : sent_) {
      const auto found = received_.find(edge);
      ASSERT_NE(found, received_.end());
      EXPECT_EQ(found->second, sent) << edge.first << " -> " << edge.second;
    }
  }
  std::size_t control_bytes = 0;
  std::size_t batches = 0;

 private:
  struct Open {
    std::string name;
    std::size_t left;
  };
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  void end(int rank, std::uint64_t id) {
    ended_[at(rank)].push_back(open_[at(rank)].at(id).name);
    open_[at(rank)].erase(id);
  }
  void count_down(int rank, std::uint64_t id) {
    if (--open_[at(rank)].at(id).left == 0) end(rank, id);
  }
  void collect(int rank) {
    EdgeMatcher& matcher = this->matcher(rank);
    for (const MatchEvent& event : matcher.take_events()) {
      if (event.status.ok()) {
        count_down(rank, event.id);
        continue;
      }
      errors_[at(rank)].emplace_back(event.status.text());
      open_[at(rank)].erase(event.id);
    }
    for (const SendBatch& batch : matcher.take_sends()) {
      ++batches;
      auto& stream = sent_[{rank, batch.to}];
      stream.emplace_back();
      for (const std::uint64_t id : batch.ids) {
        stream.back() += open_[at(rank)].at(id).name + " ";
        count_down(rank, id);
      }
    }
    for (const ReceiveBatch& batch : matcher.take_receives()) {
      auto& stream = received_[{batch.from, rank}];
      stream.emplace_back();
      for (const ReceiveBatch::Item& item : batch.items) {
        if (!item.is_wanted) continue;
        stream.back() += open_[at(rank)].at(item.id).name + " ";
        count_down(rank, item.id);
      }
    }
    for (MatchMessage& message : matcher.take_messages()) {
      control_bytes += message.bytes.size();
      wires_[{rank, message.to}].push_back(std::move(message.bytes));
      under_way_.emplace_back(rank, message.to);
    }
  }

  std::vector<std::unique_ptr<EdgeMatcher>> matchers_;
  std::vector<std::map<std::uint64_t, Open>> open_;
  std::vector<std::vector<std::string>> ended_, errors_;
  std::map<std::pair<int, int>, std::vector<std::string>> sent_, received_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> wires_;
  std::vector<std::pair<int, int>> under_way_;
  std::mt19937_64 random_;
  std::uint64_t next_id_ = 1;
  std::int64_t now_ = 0;
};

MatchRequest exchange(const std::string& name, const std::vector<int>& in,
                      const std::vector<int>& out, std::size_t count = 16) {
  MatchRequest request;
  request.name = name;
  request.count = count;
  for (const int rank : in) request.sources.push_back({rank, count});
  for (const int rank : out) request.destinations.push_back({rank, 1.0});
  return request;
}

// What the matcher of rank 1 of two would send to rank 0.
std::vector<std::byte> message_of(EdgeMatcher& sender) {
  sender.step(0);
  std::vector<MatchMessage> messages = sender.take_messages();
  EXPECT_EQ(messages.size(), 1U);
  return messages.front().bytes;
}

// A random digraph: for each rank its in-neighbors and out-neighbors.
struct Digraph {
  Digraph(int size, double density, std::mt19937_64& random)
      : in(static_cast<std::size_t>(size)), out(static_cast<std::size_t>(size)) {
    for (int from = 0; from < size; ++from) {
      for (int to = 0; to < size; ++to) {
        if (from == to || std::uniform_real_distribution<>()(random) > density) continue;
        out[static_cast<std::size_t>(from)].push_back(to);
        in[static_cast<std::size_t>(to)].push_back(from);
      }
    }
  }
  std::vector<std::vector<int>> in, out;
};

class Sizes : public testing::TestWithParam<int> {};

// A rank submits a name again as soon as it has ended there, so ranks are in different rounds.
TEST_P(Sizes, RanksInTheirOwnOrdersAndRoundsEndEveryName) {
  constexpr int kNames = 12;
  constexpr int kRounds = 5;
  const int size = GetParam();
  for (std::uint64_t seed = 1; seed <= seeds(4); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Network network(size, seed);
    std::mt19937_64& random = network.random();
    std::vector<Digraph> graphs;  // of each round: peers may change
    for (int round = 0; round < kRounds; ++round) graphs.emplace_back(size, 3.0 / size, random);
    std::vector<std::vector<int>> rounds(static_cast<std::size_t>(size), std::vector<int>(kNames));
    int left = size * kNames * kRounds;
    for (int turn = 0; left > 0; ++turn) {
      ASSERT_LT(turn, 4'000'000);
      const int rank = static_cast<int>(random() % static_cast<unsigned>(size));
      const auto name = static_cast<std::size_t>(random() % kNames);
      int& round = rounds[static_cast<std::size_t>(rank)][name];
      const std::string text = fmt::format("n{}", name);
      const auto ended = std::ranges::count(network.ended(rank), text);
      if (round < kRounds && ended == round) {
        const Digraph& graph = graphs[static_cast<std::size_t>(round)];
        const auto r = static_cast<std::size_t>(rank);
        ASSERT_TRUE(network.submit(rank, exchange(text, graph.in[r], graph.out[r])).ok());
        ++round;
        --left;
        if (random() % 2 == 0) network.step(rank);
      }
      if (!network.deliver_one() && left > 0) network.settle();
    }
    network.settle();
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(network.ended(rank).size(), static_cast<std::size_t>(kNames * kRounds));
      EXPECT_TRUE(network.errors(rank).empty());
      EXPECT_EQ(network.matcher(rank).pending(), 0U);
    }
    network.expect_streams_agree();
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sizes, testing::Values(2, 3, 5, 8, 17, 32));

MatchRequest of_some(MatchRequest request) {
  request.collective = Collective::pair_average;
  request.is_of_all = false;
  return request;
}

// Ranks 0 and 1 use the name for an operation of theirs, before rank 2 hears of it.
TEST(Match, OperationsOfSomeRanksAreNoRoundsOfTheGraph) {
  Network network(3, 1);
  const auto on_graph = [&](int rank) {
    ASSERT_TRUE(network.submit(rank, exchange("x", {(rank + 2) % 3}, {(rank + 1) % 3})).ok());
  };
  for (int round = 0; round < 2; ++round) {
    on_graph(2);
    for (const int rank : {0, 1})
      ASSERT_TRUE(network.submit(rank, of_some(exchange("x", {1 - rank}, {1 - rank}))).ok());
    network.settle();
    network.pass(1'000'000);
    network.settle();
    for (const int rank : {0, 1}) on_graph(rank);
    network.settle();
  }
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(network.errors(rank).empty()) << network.errors(rank).front();
    EXPECT_EQ(network.ended(rank).size(), rank == 2 ? 2U : 4U);
  }
  network.expect_streams_agree();
}

TEST(Match, AnOperationOfSomeRanksIsNoneOfTheGraph) {
  for (const bool sends : {false, true}) {
    for (const bool is_first : {false, true}) {
      Network network(2, 1);
      MatchRequest some = sends ? exchange("x", {}, {1}) : exchange("x", {1}, {});
      some.collective = Collective::send;
      some.is_of_all = false;
      if (is_first) {
        ASSERT_TRUE(network.submit(0, some).ok());
        network.settle();
      }
      ASSERT_TRUE(network.submit(1, exchange("x", {0}, {0})).ok());
      network.settle();
      if (!is_first) {
        ASSERT_TRUE(network.submit(0, some).ok());
      }
      network.settle();
      for (const int rank : {0, 1}) {
        ASSERT_EQ(network.errors(rank).size(), 1U);
        EXPECT_NE(network.errors(rank)[0].find("neighbor_allreduce"), std::string::npos);
      }
    }
  }
}

// Rank 0 leaves rank 1 out, and does not wait for it.
TEST(Match, ALateRankHearsOfEachRoundThatLeftItOut) {
  Network network(2, 1);
  for (int round = 0; round < 3; ++round) {
    MatchRequest request = exchange("x", {}, {});
    request.skipped = {1};
    ASSERT_TRUE(network.submit(0, request).ok());
  }
  network.settle();
  for (std::size_t round = 1; round <= 3; ++round) {
    MatchRequest request = exchange("x", {0}, {});
    request.may_skip = true;
    ASSERT_TRUE(network.submit(1, request).ok());
    network.settle();
    EXPECT_EQ(network.ended(1).size(), round);
  }
}

// Each step has names of its own, one that comes in each step, and some that are forgotten in between, or
// at some ranks only. The ranks have an order, and the steps a graph, of their own.
TEST(Match, NamesAreForgottenWithoutHarm) {
  constexpr int kSize = 4;
  constexpr int kSteps = 400;
  constexpr std::uint64_t kWindow = 64;
  Network network(kSize, 7, 4096, kWindow);
  std::mt19937_64& random = network.random();
  std::size_t submitted = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::string> names{"x"};
    for (int i = 0; i < 9; ++i) names.push_back(fmt::format("s{}.{}", step, i));
    for (const int period : {2, 7, 12, 13, 19, 20, 45})  // windows are 6 to 7 steps
      if (step % period == 0) names.push_back(fmt::format("p{}", period));
    submitted += names.size();
    const Digraph graph(kSize, 0.4, random);
    std::vector<std::vector<std::string>> left(kSize, names);
    for (auto& each : left) std::ranges::shuffle(each, random);
    while (std::ranges::any_of(left, [](const auto& each) { return !each.empty(); })) {
      const auto rank = static_cast<std::size_t>(random() % kSize);
      if (left[rank].empty()) continue;
      ASSERT_TRUE(network
                      .submit(static_cast<int>(rank),
                              exchange(left[rank].back(), graph.in[rank], graph.out[rank]))
                      .ok());
      left[rank].pop_back();
      network.step(static_cast<int>(rank));
      if (random() % 2 == 0) network.deliver_one();
    }
    network.settle();
    for (int rank = 0; rank < kSize; ++rank) {
      ASSERT_TRUE(network.errors(rank).empty()) << step << ": " << network.errors(rank).front();
      ASSERT_EQ(network.ended(rank).size(), submitted) << network.matcher(rank).waiting();
    }
  }
  network.expect_streams_agree();
}

// Two ranks whose orders differ by half a window at most say the same of any two submissions of a name.
TEST(Match, RoundsAreComparedAfterNamesAreForgotten) {
  constexpr std::uint64_t kWindow = 64;
  constexpr int kRanks = 3;
  std::mt19937_64 random(3);
  std::vector<std::string> all;
  for (int at = 0; at < 60'000; ++at) all.push_back(fmt::format("once {}", at));
  for (std::size_t name = 0; name < 60; ++name) {
    std::size_t at = random() % 4000;
    for (; at < all.size(); at += 1 + random() % (5 * kWindow)) all[at] = fmt::format("n{}", name);
  }
  std::vector<match::Rounds> ranks;
  std::vector<std::map<std::string, std::vector<match::Round>>> found(kRanks);
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    match::Rounds& rounds = ranks.emplace_back(kWindow);
    std::vector<std::string> own = all;
    constexpr std::ptrdiff_t kBlock = kWindow / 2;
    for (auto block = own.begin(); own.end() - block >= kBlock; block += kBlock)
      std::shuffle(block, block + kBlock, random);
    for (const std::string& name : own) found[rank][name].push_back(rounds.begin(name));
    EXPECT_LE(rounds.known(), 6 * kWindow + 2);
  }
  int compared = 0;
  for (const auto& [name, own] : found[0]) {
    for (std::size_t rank = 1; rank < kRanks; ++rank) {
      const std::vector<match::Round>& its = found[rank].at(name);
      ASSERT_EQ(own.size(), its.size());
      for (std::size_t k = 0; k < own.size(); ++k) {
        const auto place = [&](std::size_t other) { return ranks[0].place(own[k], its[other]); };
        ASSERT_EQ(place(k), match::Place::same) << name << " " << k;
        if (k > 0) {
          ASSERT_EQ(place(k - 1), match::Place::before) << name << " " << k;
        }
        if (k + 1 < own.size()) {
          ASSERT_EQ(place(k + 1), match::Place::after) << name << " " << k;
        }
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 100'000);
}

TEST(Match, WhatIsReadyTogetherTravelsTogether) {
  Network network(2, 1);
  for (int name = 0; name < 40; ++name)
    ASSERT_TRUE(network.submit(0, exchange(fmt::format("n{}", name), {1}, {1})).ok());
  for (int name = 39; name >= 0; --name)
    ASSERT_TRUE(network.submit(1, exchange(fmt::format("n{}", name), {0}, {0})).ok());
  network.settle();
  EXPECT_EQ(network.ended(0).size(), 40U);
  EXPECT_LE(network.batches, 4U);
  network.expect_streams_agree();
}

TEST(Match, HigherPrioritiesLeaveFirst) {
  Network network(2, 1);
  const std::vector<int> priorities{0, 5, -1, 5, 9};
  for (std::size_t i = 0; i < priorities.size(); ++i)
    ASSERT_TRUE(network.submit(1, exchange(fmt::format("n{}", i), {0}, {})).ok());
  network.settle();
  for (std::size_t i = 0; i < priorities.size(); ++i) {
    MatchRequest request = exchange(fmt::format("n{}", i), {}, {1});
    request.priority = priorities[i];
    ASSERT_TRUE(network.submit(0, request).ok());
  }
  network.settle();
  EXPECT_EQ(network.ended(0), (std::vector<std::string>{"n4", "n1", "n3", "n0", "n2"}));
  network.expect_streams_agree();
}

TEST(Match, KnownNamesCostAFewBytes) {
  Network network(2, 1);
  const auto round = [&] {
    for (int name = 0; name < 100; ++name) {
      const std::string text = fmt::format("model.layer{}.some.long.name.weight", name);
      ASSERT_TRUE(network.submit(0, exchange(text, {1}, {1})).ok());
      ASSERT_TRUE(network.submit(1, exchange(text, {0}, {0})).ok());
    }
    network.settle();
  };
  round();
  const std::size_t first = network.control_bytes;
  round();
  EXPECT_LT(network.control_bytes - first, first / 2);
  EXPECT_LT(network.control_bytes - first, 2U * 100 * 16);
}

TEST(Match, TenThousandRequestsAreOutstandingAtOnce) {
  Network network(2, 1, 1 << 20);
  for (int name = 0; name < 10'000; ++name)
    ASSERT_TRUE(network.submit(0, exchange(fmt::format("n{}", name), {1}, {1})).ok());
  for (int name = 0; name < 10'000; ++name)
    ASSERT_TRUE(network.submit(1, exchange(fmt::format("n{}", name), {0}, {0})).ok());
  network.settle();
  EXPECT_EQ(network.ended(0).size(), 10'000U);
  EXPECT_EQ(network.ended(1).size(), 10'000U);
}

TEST(Match, APusherTellsWhomItLeavesOut) {
  Network network(3, 1);
  for (int rank = 0; rank < 3; ++rank) {
    const int next = (rank + 1) % 3;
    const int other = (rank + 2) % 3;
    MatchRequest request = exchange("x", {next, other}, {next});
    request.skipped = {other};
    request.may_skip = true;
    ASSERT_TRUE(network.submit(rank, request).ok());
  }
  network.settle();
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(network.ended(rank), std::vector<std::string>{"x"});
}

TEST(Match, AReceiverWithoutASenderIsAnErrorAtBoth) {
  Network network(3, 1);
  ASSERT_TRUE(network.submit(0, exchange("x", {1}, {})).ok());
  ASSERT_TRUE(network.submit(1, exchange("x", {2}, {})).ok());
  ASSERT_TRUE(network.submit(2, exchange("x", {}, {1})).ok());
  network.settle();
  const std::string text = "x: rank 0 expects data of rank 1, which has no edge to it";
  EXPECT_EQ(network.errors(0), std::vector<std::string>{text});
  EXPECT_EQ(network.errors(1), std::vector<std::string>{text});
}

TEST(Match, ASenderWithoutAReceiverIsAnErrorAtBothAfterItAsks) {
  Network network(2, 1);
  ASSERT_TRUE(network.submit(0, exchange("x", {}, {1})).ok());
  MatchRequest other = exchange("x", {}, {0});
  ASSERT_TRUE(network.submit(1, other).ok());
  network.settle();
  EXPECT_TRUE(network.errors(0).empty());
  network.pass(1000);
  network.settle();
  ASSERT_EQ(network.errors(0).size(), 1U);
  ASSERT_EQ(network.errors(1).size(), 1U);
  EXPECT_NE(network.errors(0)[0].find("which has no edge from it"), std::string::npos);
}

TEST(Match, DifferentShapesAreAnErrorThatNamesBoth) {
  Network network(2, 1);
  ASSERT_TRUE(network.submit(0, exchange("x", {1}, {1}, 4)).ok());
  ASSERT_TRUE(network.submit(1, exchange("x", {0}, {0}, 5)).ok());
  ASSERT_TRUE(network.submit(0, exchange("y", {1}, {1})).ok());
  ASSERT_TRUE(network.submit(1, exchange("y", {0}, {0})).ok());
  network.settle();
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(network.errors(rank).size(), 1U);
    EXPECT_NE(network.errors(rank)[0].find("elements of f32, rank"), std::string::npos)
        << network.errors(rank)[0];
    EXPECT_EQ(network.ended(rank), std::vector<std::string>{"y"});
  }
  // The name can be used again.
  ASSERT_TRUE(network.submit(0, exchange("x", {1}, {1}, 4)).ok());
  ASSERT_TRUE(network.submit(1, exchange("x", {0}, {0}, 4)).ok());
  network.settle();
  EXPECT_EQ(network.ended(0), (std::vector<std::string>{"y", "x"}));
}

// Rank 2 submits when the others have failed.
TEST(Match, ALateRankHearsWhyTheOthersFailed) {
  Network network(3, 1);
  ASSERT_TRUE(network.submit(0, exchange("x", {1, 2}, {1, 2}, 4)).ok());
  ASSERT_TRUE(network.submit(1, exchange("x", {0, 2}, {0, 2}, 5)).ok());
  network.settle();
  ASSERT_TRUE(network.submit(2, exchange("x", {0, 1}, {0, 1}, 4)).ok());
  network.settle();
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(network.errors(rank).size(), 1U);
    EXPECT_NE(network.errors(rank)[0].find("elements of f32, rank"), std::string::npos)
        << network.errors(rank)[0];
  }
}

TEST(Match, WhoIsWaitedForIsTold) {
  Network network(3, 1);
  ASSERT_TRUE(network.submit(0, exchange("x", {1}, {2})).ok());
  network.settle();
  EXPECT_EQ(network.matcher(0).waiting(), "x waits for data of rank 1 and for rank 2 to submit it");
  EXPECT_EQ(network.submit(0, exchange("x", {1}, {2})).text(),
            "x: an operation of this name is pending");
  for (int name = 0; name < 19; ++name)
    ASSERT_TRUE(network.submit(0, exchange(fmt::format("n{}", name), {1}, {})).ok());
  const std::string waiting = network.matcher(0).waiting();
  EXPECT_TRUE(waiting.ends_with("; and 4 more")) << waiting;
  EXPECT_EQ(std::ranges::count(waiting, ';'), 16) << waiting;
}

TEST(Match, ASenderAsksLessAndLessOftenAndNotWhenNothingIsPending) {
  EdgeMatcher matcher(MatchOptions{.rank = 1, .size = 2, .ask_ns = 1000});
  ASSERT_TRUE(matcher.submit(exchange("x", {}, {0}), 0).ok());
  for (const std::int64_t due : {1000, 3000, 7000}) {
    EXPECT_EQ(matcher.next_ns(), due);
    matcher.step(due);
  }
  EdgeMatcher receiver(MatchOptions{.rank = 0, .size = 2});
  ASSERT_TRUE(receiver.submit(exchange("x", {1}, {}), 0).ok());
  ASSERT_TRUE(matcher.receive(0, receiver.take_messages().front().bytes, 7000).ok());
  EXPECT_EQ(matcher.pending(), 0U);
  matcher.step(15'000);
  EXPECT_EQ(matcher.next_ns(), std::numeric_limits<std::int64_t>::max());
}

TEST(Match, AMismatchNamesThePeer) {
  EdgeMatcher sender(MatchOptions{.rank = 1, .size = 2});
  ASSERT_TRUE(sender.submit(exchange("x", {0}, {}, 5), 0).ok());
  EdgeMatcher receiver(MatchOptions{.rank = 0, .size = 2});
  ASSERT_TRUE(receiver.submit(exchange("x", {}, {1}), 0).ok());
  ASSERT_TRUE(receiver.receive(1, message_of(sender), 0).ok());
  const std::vector<MatchEvent> events = receiver.take_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].status.rank(), 1);
}

// What a neighbor wants before this rank submits it, and what it will not send, are kept for a bounded
// number of names.
TEST(Match, APeerThatIsFarAheadIsAnError) {
  constexpr int kMost = 65'536;
  for (const bool skips : {false, true}) {
    for (const int names : {kMost, kMost + 1}) {
      EdgeMatcher sender(MatchOptions{.rank = 1, .size = 2});
      for (int name = 0; name < names; ++name) {
        const std::vector<int> in = skips ? std::vector<int>{} : std::vector<int>{0};
        MatchRequest request = exchange(std::to_string(name), in, {});
        if (skips) request.skipped = {0};
        ASSERT_TRUE(sender.submit(request, 0).ok());
      }
      EdgeMatcher receiver(MatchOptions{.rank = 0, .size = 2});
      EXPECT_EQ(receiver.receive(1, message_of(sender), 0).ok(), names == kMost);
    }
  }
}

TEST(Match, BytesThatAreNoMessageAreAnError) {
  std::mt19937_64 random(5);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    EdgeMatcher sender(MatchOptions{.rank = 1, .size = 2});
    ASSERT_TRUE(sender.submit(exchange("x", {0}, {0}), 0).ok());
    std::vector<std::byte> bytes = message_of(sender);
    if (random() % 2 == 0) bytes.resize(random() % bytes.size());
    for (std::byte& byte : bytes) {
      if (random() % 3 == 0) byte = static_cast<std::byte>(random());
    }
    EdgeMatcher receiver(MatchOptions{.rank = 0, .size = 2});
    ASSERT_TRUE(receiver.submit(exchange("x", {1}, {1}), 0).ok());
    const Status status = receiver.receive(1, bytes, 0);
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(status.rank(), 1);
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace weft
