// What ranks do wrong: different requests under one name, names used twice, a rank that lags, bytes
// that are no message.
#include <gtest/gtest.h>

#include <random>

#include "tests/base/sanitized.h"
#include "tests/negotiate/network.h"

namespace weft::test {
namespace {

// Two ranks submit these under one name; both are told the text, and other names go on.
void expect_mismatch(const NamedRequest& a, const NamedRequest& b, const std::string& text) {
  Network network(3, 1);
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(network.rank(rank).submit(rank == 2 ? b : a, 0).ok());
    ASSERT_TRUE(network.rank(rank).submit(sum_of("other"), 0).ok());
  }
  network.settle();
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<std::string>& told = network.told(rank);
    EXPECT_NE(std::ranges::find(told, "fail a: " + text), told.end()) << told.front();
    EXPECT_EQ(network.names_run(rank), std::vector<std::string>{"other"});
  }
}

TEST(NegotiateErrors, EachDifferenceIsNamed) {
  const NamedRequest a = sum_of("a");
  NamedRequest b = a;
  b.collective = Collective::broadcast;
  expect_mismatch(a, b, "a: the operation differs: rank 0 has allreduce, rank 2 has broadcast");
  b = a;
  b.op = ReduceOp::max;
  expect_mismatch(a, b, "a: the operator differs: rank 0 has sum, rank 2 has max");
  expect_mismatch(
      a, sum_of("a", 5),
      "a: the tensor differs: rank 0 has 4 elements of f32, rank 2 has 5 elements of f32");
  b = a;
  b.tensors[0].type = DataType::f64;
  expect_mismatch(
      a, b, "a: the tensor differs: rank 0 has 4 elements of f32, rank 2 has 4 elements of f64");
  b = a;
  b.tensors.push_back({DataType::f32, 1});
  expect_mismatch(a, b, "a: the group differs: rank 0 has 1 tensors, rank 2 has 2 tensors");
  NamedRequest c = a;
  b = a;
  b.tensors[0].shape = {4, 1};
  c.tensors[0].shape = {2, 2};
  expect_mismatch(b, c, "a: the shape of the tensor differs: rank 0 has (4, 1), rank 2 has (2, 2)");
  b.tensors[0].shape = {kAnyExtent, 1};
  c.tensors[0].shape = {kAnyExtent};
  expect_mismatch(b, c,
                  "a: the shape of the tensor differs: rank 0 has (any, 1), rank 2 has (any)");
  NamedRequest from_0 = a;
  from_0.collective = Collective::broadcast;
  from_0.root = 0;
  NamedRequest from_1 = from_0;
  from_1.root = 1;
  expect_mismatch(from_0, from_1, "a: the root differs: rank 0 has rank 0, rank 2 has rank 1");
  b = a;
  b.weights = NamedWeights::one;
  expect_mismatch(a, b, "a: the set of weights differs: rank 0 has none, rank 2 has one set");
}

TEST(NegotiateErrors, ANameOfAKnownShapeThatDiffersIsAMismatchToo) {
  Network network(2, 1);
  for (int rank = 0; rank < 2; ++rank) ASSERT_TRUE(network.rank(rank).submit(sum_of("a"), 0).ok());
  network.settle();
  ASSERT_TRUE(network.rank(0).submit(sum_of("a"), 0).ok());
  ASSERT_TRUE(network.rank(1).submit(sum_of("a", 9), 0).ok());
  network.settle();
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(network.told(rank).size(), 2U);
    EXPECT_EQ(
        network.told(rank)[1],
        "fail a: a: the tensor differs: rank 0 has 4 elements of f32, rank 1 has 9 elements of "
        "f32");
  }
}

TEST(NegotiateErrors, AShapeThatARankDoesNotGiveIsNotCompared) {
  Network network(2, 1);
  for (int round = 0; round < 2; ++round) {
    NamedRequest given = sum_of("a");
    given.tensors[0].shape = {2, 2};
    ASSERT_TRUE(network.rank(round).submit(given, 0).ok());
    ASSERT_TRUE(network.rank(1 - round).submit(sum_of("a"), 0).ok());
    network.settle();
  }
  EXPECT_EQ(network.names_run(0), (std::vector<std::string>{"a", "a"}));
}

// In a cycle a rank waits for those whose messages come next, else for all who could submit.
TEST(NegotiateErrors, ARankSaysForWhomItWaits) {
  Network network(3, 1);
  EXPECT_TRUE(network.rank(0).awaited().empty());
  ASSERT_TRUE(network.rank(0).submit(sum_of("a"), 0).ok());
  network.step(0);
  EXPECT_EQ(network.rank(0).awaited(), std::vector<Rank>{2});  // whom it has called
  network.settle();
  EXPECT_EQ(network.rank(0).awaited(), (std::vector<Rank>{1, 2}));
  EXPECT_TRUE(network.rank(1).awaited().empty());
  for (const int rank : {1, 2}) ASSERT_TRUE(network.rank(rank).submit(sum_of("a"), 0).ok());
  network.settle();
  EXPECT_TRUE(network.rank(0).awaited().empty());
  EXPECT_FALSE(network.rank(0).is_busy());
}

// Rank 0 takes what the others have to tell in the order of their ranks.
TEST(NegotiateErrors, WhoHasToldRankZeroIsWaitedForNoMore) {
  bool waits_for_the_last = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Network network(4, seed);
    for (int rank = 0; rank < 4; ++rank)
      ASSERT_TRUE(network.rank(rank).submit(sum_of("a"), 0).ok());
    for (int rank = 0; rank < 4; ++rank) network.step(rank);
    while (network.deliver_one())
      waits_for_the_last |= network.rank(0).awaited() == std::vector<Rank>{3};
  }
  EXPECT_TRUE(waits_for_the_last);
}

TEST(NegotiateErrors, AJoinedRankGivesNoZerosToAMaximum) {
  Network network(2, 1);
  ASSERT_TRUE(network.rank(1).join(0).ok());
  NamedRequest request = sum_of("m");
  request.op = ReduceOp::max;
  ASSERT_TRUE(network.rank(0).submit(request, 0).ok());
  network.settle();
  ASSERT_EQ(network.told(0).size(), 1U);
  EXPECT_TRUE(network.told(0)[0].starts_with("fail m: m: 1 of the ranks have joined"));
}

TEST(NegotiateErrors, AJoinedRankCannotTakePartInABroadcast) {
  Network network(2, 1);
  ASSERT_TRUE(network.rank(1).join(0).ok());
  network.settle();
  NamedRequest request = sum_of("b");
  request.collective = Collective::broadcast;
  request.root = 0;
  ASSERT_TRUE(network.rank(0).submit(request, 0).ok());
  network.settle();
  ASSERT_EQ(network.told(0).size(), 1U);
  EXPECT_EQ(
      network.told(0)[0],
      "fail b: b: 1 of the ranks have joined, and can only give zeros to the sum or average of "
      "an allreduce");
}

TEST(NegotiateErrors, NamesAreChecked) {
  Network network(2, 1);
  ASSERT_TRUE(network.rank(0).submit(sum_of("a"), 0).ok());
  EXPECT_EQ(network.rank(0).submit(sum_of("a"), 0).text(),
            "a: an operation of this name is pending");
  EXPECT_EQ(network.rank(0).submit(sum_of(""), 0).code(), Code::invalid_argument);
  EXPECT_EQ(network.rank(0).submit(sum_of(std::string(kMostNameBytes + 1, 'x')), 0).code(),
            Code::invalid_argument);
  EXPECT_TRUE(network.rank(1).submit(sum_of(std::string(kMostNameBytes, 'x')), 0).ok());
  EXPECT_EQ(network.rank(0).join(0).text(), "join: a is pending; wait for it first");
}

TEST(NegotiateErrors, ARankThatLagsIsNamedOnAllRanks) {
  Network network(4, 8, {.stall_ns = 1000});
  for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(network.rank(rank).submit(sum_of("a"), 0).ok());
  network.settle();
  for (const int rank : {0, 1, 3})
    ASSERT_TRUE(network.rank(rank).submit(sum_of("a"), network.now()).ok());
  ASSERT_TRUE(network.rank(2).submit(sum_of("b"), network.now()).ok());
  network.settle();
  EXPECT_EQ(network.told(2).size(), 1U);
  network.pass(1000);
  network.settle();
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_GE(network.told(rank).size(), 2U);
    const std::string& text = network.told(rank)[1];
    EXPECT_NE(text.find("a: submitted by ranks 0-1, 3, not by 2"), std::string::npos) << text;
    EXPECT_NE(text.find("b: submitted by ranks 2, not by 0-1, 3"), std::string::npos) << text;
  }
  // All ranks are told at once, and again at growing intervals.
  const std::size_t told = network.told(0).size();
  EXPECT_EQ(told, 2U);
  const auto told_after = [&](std::int64_t ns) {
    network.pass(ns);
    network.settle();
    return network.told(0).size() - told;
  };
  EXPECT_EQ(told_after(500), 0U);
  EXPECT_EQ(told_after(500), 1U);  // 1000 after the first
  EXPECT_EQ(told_after(1500), 1U);
  EXPECT_EQ(told_after(500), 2U);  // 2000 later
  EXPECT_EQ(told_after(3500), 2U);
  EXPECT_EQ(told_after(500), 3U);  // 4000 later
  ASSERT_TRUE(network.rank(2).submit(sum_of("a"), network.now()).ok());
  network.settle();
  EXPECT_EQ(network.names_run(3).size(), 2U);
}

// Of more names than a rank tells, the oldest are told.
TEST(NegotiateErrors, AStallTellsOfTheOldestNames) {
  Network network(2, 8, {.stall_ns = 1000});
  for (int name = 0; name < 1000; ++name)
    ASSERT_TRUE(network.rank(0).submit(sum_of("n" + std::to_string(name)), name / 2).ok());
  network.pass(2000);
  network.settle();
  ASSERT_EQ(network.told(1).size(), 1U);
  const std::string& text = network.told(1)[0];
  EXPECT_TRUE(text.starts_with("stalled: n0: submitted by ranks 0, not by 1; n1: ")) << text;
}

// The contribution of rank 1 to the cycle after `cycles` others, which it agreed on with rank 0.
std::vector<std::byte> contribution_after(int cycles) {
  std::vector<Negotiator> ranks;
  for (const Rank rank : {0, 1}) ranks.emplace_back(NegotiateOptions{.rank = rank, .size = 2});
  for (int cycle = 0; cycle < cycles; ++cycle) {
    for (Negotiator& each : ranks)
      EXPECT_TRUE(each.submit(sum_of("a" + std::to_string(cycle)), 0).ok());
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t from = 0; from < 2; ++from) {
        ranks[from].step(0);
        for (const ControlMessage& message : ranks[from].take_messages()) {
          ranks[1 - from].receive(static_cast<Rank>(from), message.bytes, 0);
          moves = true;
        }
      }
    }
  }
  EXPECT_TRUE(ranks[1].submit(sum_of("b"), 0).ok());
  ranks[1].step(0);
  return ranks[1].take_messages().front().bytes;
}

TEST(NegotiateErrors, ARankIsAtMostOneCycleAhead) {
  const auto failure_after = [](const std::vector<std::vector<std::byte>>& messages) {
    Negotiator receiver(NegotiateOptions{.rank = 0, .size = 2});
    for (const std::vector<std::byte>& each : messages) receiver.receive(1, each, 0);
    return receiver.failure().code();
  };
  EXPECT_EQ(failure_after({contribution_after(0), contribution_after(1)}), Code::ok);
  EXPECT_EQ(failure_after({contribution_after(2)}), Code::mismatch);
  EXPECT_EQ(failure_after({contribution_after(1), contribution_after(1)}), Code::mismatch);
}

// Cut and changed messages: an error that names the sender, or a message that means something else.
// Nothing is read outside of them (the sanitizers look).
TEST(NegotiateErrors, BytesThatAreNoMessageAreAnError) {
  std::mt19937_64 random(11);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    NegotiateOptions options{.rank = 1, .size = 2};
    Negotiator sender(options);
    EXPECT_TRUE(sender.submit(sum_of("a"), 0).ok());
    sender.step(0);
    auto messages = sender.take_messages();
    ASSERT_FALSE(messages.empty());
    std::vector<std::byte> bytes = messages.front().bytes;
    if (random() % 2 == 0) bytes.resize(random() % bytes.size());
    for (std::byte& byte : bytes) {
      if (random() % 4 == 0) byte = static_cast<std::byte>(random());
    }
    Negotiator receiver(NegotiateOptions{.rank = 0, .size = 2});
    receiver.receive(1, bytes, 0);
    receiver.step(0);
    if (receiver.failure().ok()) continue;
    ++refused;
    EXPECT_EQ(receiver.failure().rank(), 1);
    EXPECT_EQ(receiver.failure().code(), Code::mismatch);
    EXPECT_FALSE(receiver.submit(sum_of("b"), 0).ok());
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace weft::test
