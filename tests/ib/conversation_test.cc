// The protocol that connects two interfaces, without a device: two conversations, a wire that is a
// list of greetings, and time that is a number.
#include "verbs/ib/conversation.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <random>

namespace weft::ib {
namespace {

constexpr std::int64_t kTurnNs = 5'000'000;
constexpr int kMostTurns = 2'000;

GidBytes gid(std::uint8_t number) {
  return {number};
}

// Addresses from 5 on, and from 15, are of RoCE v1.
GidKind kind_of(std::uint8_t number) {
  return number % 10 >= 5 ? GidKind::roce_v1 : GidKind::roce_v2;
}

RoutePair pair_of(std::uint8_t own, std::uint8_t peer) {
  return {own, kind_of(own), gid(own), gid(peer)};
}

// One side, and what the protocol asked it for.
class End final : public Conversation::Side {
 public:
  End(std::uint64_t own, std::uint64_t peer) : conversation(*this, own, peer) {}

  Conversation conversation;
  std::deque<Greeting> outbox;
  bool is_known = true;           // the neighbors are
  Status refusal;                 // of queue pairs to be connected
  std::vector<bool> connections;  // whether each was made anew
  int confirmations = 0;
  Status failure;
  int warnings = 0;

 private:
  [[nodiscard]] RoutePair route_back(const Greeting& greeting) const override {
    return pair_of(greeting.receiver[0], greeting.sender[0]);
  }
  Result<bool> knows_way(const RoutePair&, const PeerPort&) override { return is_known; }
  Result<bool> greet() override {
    if (!is_known) return false;
    Greeting greeting;
    greeting.level = conversation.level();
    greeting.choice = conversation.choice();
    greeting.sender = conversation.pair().own;
    greeting.receiver = conversation.pair().peer;
    greeting.kind = static_cast<std::uint8_t>(conversation.pair().kind);
    outbox.push_back(greeting);
    return true;
  }
  [[nodiscard]] Status connect(const Greeting&, bool anew) override {
    if (refusal.ok()) connections.push_back(anew);
    return refusal;
  }
  void confirmed() override { ++confirmations; }
  void fail(const Status& why) override { failure = why; }
  [[nodiscard]] bool is_over() const override { return !failure.ok(); }
  void warn(const Status&) override { ++warnings; }
};

// The leader has addresses 1 and 2, the other 11 and 12; 1 may reach 11, and 2 may reach 12.
class Talk {
 public:
  Talk() : leader(7, 9), other(9, 7) {
    leader.conversation.set_candidates({pair_of(1, 11), pair_of(2, 12)});
    other.conversation.set_candidates({pair_of(11, 1), pair_of(12, 2)});
  }

  End leader;
  End other;
  std::int64_t now = 0;
  // Whether a greeting arrives, by its number in the order of sending.
  std::function<bool(const Greeting& greeting, int number)> arrives = [](const auto&, int) {
    return true;
  };
  int sent = 0;

  void turn() {
    now += kTurnNs;
    for (End* end : {&leader, &other}) {
      if (end->failure.ok()) end->conversation.send_due(now);
    }
    deliver(leader, other);
    deliver(other, leader);
  }
  bool connect() {
    for (int turns = 0; turns < kMostTurns; ++turns) {
      turn();
      if (leader.conversation.is_confirmed() && other.conversation.is_confirmed()) return true;
    }
    return false;
  }
  // Both ends use the same pair, as each sees it.
  [[nodiscard]] bool agrees() const {
    const RoutePair& ours = leader.conversation.pair();
    const RoutePair& theirs = other.conversation.pair();
    return ours.own == theirs.peer && ours.peer == theirs.own &&
           leader.conversation.choice() == other.conversation.choice();
  }

 private:
  void deliver(End& from, End& to) {
    while (!from.outbox.empty()) {
      const Greeting greeting = from.outbox.front();
      from.outbox.pop_front();
      if (arrives(greeting, sent++) && to.failure.ok()) to.conversation.take(greeting, now);
      // Whoever may send has a peer whose queue pairs are connected.
      EXPECT_TRUE(!to.conversation.is_confirmed() || !from.connections.empty());
    }
  }
};

TEST(Conversation, BothEndsConnectOnceByTheFirstPairThatCarries) {
  Talk talk;
  ASSERT_TRUE(talk.connect());
  EXPECT_TRUE(talk.agrees());
  EXPECT_EQ(talk.leader.conversation.pair(), pair_of(1, 11));
  for (const End* end : {&talk.leader, &talk.other}) {
    EXPECT_EQ(end->connections, std::vector<bool>{false});
    EXPECT_GE(end->confirmations, 1);
    EXPECT_EQ(end->warnings, 0);
  }
}

TEST(Conversation, ALostGreetingCostsARepetitionAndNoAgreement) {
  for (int lost = 0; lost < 12; ++lost) {
    SCOPED_TRACE("greeting " + std::to_string(lost));
    Talk talk;
    talk.arrives = [lost](const Greeting&, int number) { return number != lost; };
    ASSERT_TRUE(talk.connect());
    EXPECT_TRUE(talk.agrees());
  }
}

TEST(Conversation, APairThatCarriesNothingIsLeftForTheNextCandidate) {
  Talk talk;
  talk.arrives = [](const Greeting& greeting, int) { return greeting.sender[0] % 10 == 2; };
  ASSERT_TRUE(talk.connect());
  EXPECT_TRUE(talk.agrees());
  EXPECT_EQ(talk.leader.conversation.pair(), pair_of(2, 12));
}

// The leader hears questions over it, and nothing that it says arrives.
TEST(Conversation, APairThatWorksInOneDirectionIsGivenUpByTheLeader) {
  Talk talk;
  talk.arrives = [](const Greeting& greeting, int) { return greeting.sender[0] != 1; };
  ASSERT_TRUE(talk.connect());
  EXPECT_TRUE(talk.agrees());
  EXPECT_EQ(talk.leader.conversation.pair(), pair_of(2, 12));
  EXPECT_EQ(talk.leader.conversation.choice(), 1u);
  EXPECT_EQ(talk.leader.connections, (std::vector<bool>{false, true})) << "queue pairs anew";
  EXPECT_EQ(talk.other.connections, std::vector<bool>{false});
}

// Neighbors of v2 are looked up, and those of v1 are not: the first questions over v2 may be late, or lost.
TEST(Conversation, RoCEv1IsTakenWhereVersion2CarriesNothing) {
  for (const int late : {0, 1, 5, 1'000'000}) {
    SCOPED_TRACE("lost over v2: " + std::to_string(late));
    Talk talk;
    talk.leader.conversation.set_candidates({pair_of(1, 11), pair_of(5, 15)});
    talk.other.conversation.set_candidates({pair_of(11, 1), pair_of(15, 5)});
    int lost = 0;
    talk.arrives = [&](const Greeting& greeting, int) {
      return greeting.sender[0] % 10 == 5 || lost++ >= late;
    };
    ASSERT_TRUE(talk.connect());
    EXPECT_TRUE(talk.agrees());
    const bool any_v2 = late < 100;
    EXPECT_EQ(talk.leader.conversation.pair(), any_v2 ? pair_of(1, 11) : pair_of(5, 15));
    EXPECT_LT(talk.now, 2'000'000'000);
  }
}

TEST(Conversation, AWordOfAnEarlierChoiceProvesNothing) {
  Talk talk;
  talk.arrives = [](const Greeting&, int) { return false; };
  Greeting question;
  question.sender = gid(11);
  question.receiver = gid(1);
  talk.leader.conversation.take(question, 0);
  ASSERT_EQ(talk.leader.conversation.level(), Level::ready);
  Greeting ready = question;
  ready.level = Level::ready;
  ready.choice = 5;
  talk.leader.conversation.take(ready, 0);
  EXPECT_FALSE(talk.leader.conversation.is_confirmed()) << "it is of another choice";
  ready.choice = 0;
  talk.leader.conversation.take(ready, 0);
  EXPECT_TRUE(talk.leader.conversation.is_confirmed());
}

TEST(Conversation, WhatComesBeforeTheWayBackIsKnownWaits) {
  Talk talk;
  talk.other.is_known = false;
  for (int turns = 0; turns < 20; ++turns) talk.turn();
  EXPECT_TRUE(talk.other.conversation.waiting().has_value());
  EXPECT_TRUE(talk.other.connections.empty());
  talk.other.is_known = true;
  ASSERT_TRUE(talk.connect());
  EXPECT_TRUE(talk.agrees());
}

TEST(Conversation, AGreetingThatWaitedCanBeDropped) {
  Talk talk;
  talk.other.is_known = false;
  talk.turn();
  ASSERT_TRUE(talk.other.conversation.waiting().has_value());
  talk.other.conversation.drop_waiting();
  talk.other.is_known = true;
  talk.arrives = [](const Greeting&, int) { return false; };
  talk.turn();
  EXPECT_EQ(talk.other.conversation.level(), Level::asking);
}

TEST(Conversation, QueuePairsThatCannotBeConnectedEndIt) {
  Talk talk;
  talk.leader.refusal = Status(Code::unavailable, "no such route");
  for (int turns = 0; turns < 50; ++turns) talk.turn();
  EXPECT_EQ(talk.leader.failure.text(), "no such route");
  EXPECT_FALSE(talk.leader.conversation.is_confirmed());
  EXPECT_FALSE(talk.other.conversation.is_confirmed());
}

// The last datagram is lost, and the leader already sends.
TEST(Conversation, WhatComesOverTheQueuePairsConfirms) {
  Talk talk;
  talk.arrives = [](const Greeting& greeting, int) { return greeting.level != Level::confirmed; };
  for (int turns = 0; turns < 50; ++turns) talk.turn();
  ASSERT_TRUE(talk.leader.conversation.is_confirmed());
  ASSERT_FALSE(talk.other.conversation.is_confirmed());
  talk.other.conversation.confirm();
  EXPECT_TRUE(talk.other.conversation.is_confirmed());
  EXPECT_TRUE(talk.agrees());
}

TEST(Conversation, AnInterfaceConnectsToItself) {
  End alone(7, 7);
  alone.conversation.connect_to_self(pair_of(1, 1), Greeting());
  EXPECT_TRUE(alone.conversation.is_confirmed());
  EXPECT_EQ(alone.connections, std::vector<bool>{false});
}

// Half of the greetings are lost, and one pair may carry in one direction only.
TEST(Conversation, WhateverIsLostBothEndsAgreeInTheEnd) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Talk talk;
    const auto dead = static_cast<std::uint8_t>(std::array{0, 1, 2, 11, 12}[seed % 5]);
    talk.arrives = [&random, dead](const Greeting& greeting, int) {
      return greeting.sender[0] != dead && random() % 2 == 0;
    };
    ASSERT_TRUE(talk.connect());
    EXPECT_TRUE(talk.agrees());
  }
}

}  // namespace
}  // namespace weft::ib
