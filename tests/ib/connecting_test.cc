// Connecting over datagrams that get lost, come twice or late, or are noise.
#include <chrono>
#include <future>
#include <random>
#include <set>

#include "tests/ib/pair.h"

namespace weft::ib {
namespace {

using GidOnWire = std::pair<ScriptedGid, ScriptedGid>;

// Both ends use the same pair of addresses, and each has one endpoint.
void expect_one_connection(Ranks& ranks) {
  ranks.meet(0, 1);
  EXPECT_EQ(ranks.fabric.reliable_pairs("scripted0").size(), ranks.ib.queue_pairs);
  EXPECT_EQ(ranks.fabric.reliable_pairs("scripted1").size(), ranks.ib.queue_pairs);
  for (const Rank self : {0, 1}) {
    EXPECT_EQ(ranks.link(self, 1 - self).describe().find("not connected"), std::string::npos);
  }
}

TEST(IbConnecting, LostDatagramsAreSaidAgain) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    Ranks ranks(2);
    std::mt19937 random(seed);  // NOLINT: seeded, so that a failure repeats
    ranks.fabric.datagrams = [&](const ScriptedDatagram&) {
      return random() % 2 == 0 ? Fate::drop : Fate::deliver;
    };
    ranks.open_all();
    expect_one_connection(ranks);
  }
}

TEST(IbConnecting, DatagramsThatComeTwiceChangeNothing) {
  Ranks ranks(2);
  ranks.fabric.datagrams = [](const ScriptedDatagram&) { return Fate::twice; };
  ranks.open_all();
  expect_one_connection(ranks);
}

TEST(IbConnecting, DatagramsThatOvertakeEachOtherChangeNothing) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    Ranks ranks(2, {0, 1, 2});
    std::mt19937 random(seed);  // NOLINT
    ranks.fabric.datagrams = [&](const ScriptedDatagram&) {
      return random() % 4 == 0 ? Fate::deliver : Fate::later;
    };
    ranks.open_all();
    Endpoint& there = ranks.link(0, 1);
    Endpoint& back = ranks.link(1, 0);
    const auto connected = [&] {
      ranks.fabric.deliver_later_ones(random() % 2 == 0);
      return ranks.at(0).flushed() && ranks.at(1).flushed();
    };
    ASSERT_TRUE(ranks.eventually(connected));
    EXPECT_TRUE(there.failure().ok() && back.failure().ok());
    ranks.fabric.datagrams = nullptr;
    expect_one_connection(ranks);
  }
}

// "(GID 2)": the index is the network's place in the table, alike on both ends.
std::string gid_of(Ranks& ranks, Rank self) {
  const std::string path = ranks.link(self, 1 - self).describe();
  const std::size_t begin = path.find("(GID");
  return path.substr(begin, path.find(',', begin) - begin) + ")";
}

TEST(IbConnecting, BothThatCallAtOnceAgreeOnOnePairOfAddresses) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    Ranks ranks(2, {0, 1, 2});
    std::mt19937 random(seed);  // NOLINT
    ranks.fabric.datagrams = [&](const ScriptedDatagram&) {
      return random() % 3 == 0 ? Fate::deliver : Fate::drop;
    };
    ranks.open_all();
    (void)ranks.link(0, 1);
    (void)ranks.link(1, 0);
    expect_one_connection(ranks);
    EXPECT_EQ(gid_of(ranks, 0), gid_of(ranks, 1));
  }
}

TEST(IbConnecting, AnAddressThatReachesNobodyIsPassedOver) {
  Ranks ranks(2, {0, 1});
  std::set<GidOnWire> tried;
  ranks.fabric.datagrams = [&](const ScriptedDatagram& datagram) {
    tried.insert({datagram.sender, datagram.receiver});
    return datagram.sender[14] == 1 && datagram.receiver[14] == 1 ? Fate::deliver : Fate::drop;
  };
  ranks.open_all();
  expect_one_connection(ranks);
  for (const Rank self : {0, 1}) EXPECT_EQ(gid_of(ranks, self), "(GID 1)");
  EXPECT_GT(tried.size(), 1u);
}

// Where only Ethernet frames of RoCE v1 get through, the answer goes back in them, too.
TEST(IbConnecting, AnAddressThatWorksInOneVersionOnlyIsUsedInThatOne) {
  for (const std::uint32_t kind : {IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2}) {
    Ranks ranks(2, {0, 1});
    for (const Rank rank : {0, 1}) ranks.fabric.add_version_1(Ranks::device(rank));
    ranks.fabric.datagrams = [kind](const ScriptedDatagram& datagram) {
      return datagram.kind == kind && datagram.sender[14] == 1 && datagram.receiver[14] == 1
                 ? Fate::deliver
                 : Fate::drop;
    };
    ranks.open_all();
    expect_one_connection(ranks);
    const bool is_v1 = kind == IBV_GID_TYPE_ROCE_V1;
    for (const Rank self : {0, 1}) {
      EXPECT_EQ(gid_of(ranks, self), is_v1 ? "(GID 2)" : "(GID 3)");
      const std::string path = ranks.link(self, 1 - self).describe();
      EXPECT_NE(path.find(is_v1 ? "both RoCE v1" : "both RoCE v2"), std::string::npos) << path;
    }
  }
}

// Both versions get through: the routable one is taken, wherever it stands in the table.
TEST(IbConnecting, RoCEv2ComesBeforeV1) {
  Ranks ranks(2);
  for (const Rank rank : {0, 1}) ranks.fabric.add_version_1(Ranks::device(rank));
  ranks.open_all();
  expect_one_connection(ranks);
  for (const Rank self : {0, 1}) EXPECT_EQ(gid_of(ranks, self), "(GID 1)");
}

// Networks do not mix, and on network 0 nothing gets from the host with that number to the other.
bool is_cut(const ScriptedDatagram& datagram, int from_host) {
  if (datagram.sender[14] != datagram.receiver[14]) return true;
  return datagram.sender[14] == 0 && datagram.sender[15] == from_host;
}

// Who leads is chance (the smaller nonce): some rounds have either.
TEST(IbConnecting, AnAddressThatWorksOneWayOnlyIsGivenUp) {
  for (int round = 0; round < 12; ++round) {
    Ranks ranks(2, {0, 1});
    ranks.fabric.datagrams = [&](const ScriptedDatagram& datagram) {
      return is_cut(datagram, 1 + round % 2) ? Fate::drop : Fate::deliver;
    };
    ranks.open_all();
    (void)ranks.link(0, 1);
    (void)ranks.link(1, 0);
    ASSERT_TRUE(ranks.eventually([&] { return ranks.at(0).flushed() && ranks.at(1).flushed(); }));
    expect_one_connection(ranks);
    for (const Rank self : {0, 1}) EXPECT_EQ(gid_of(ranks, self), "(GID 1)");
  }
}

// The way that works changes while they talk: each direction of each network comes and goes.
TEST(IbConnecting, AddressesThatComeAndGoEndInOneConnection) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    Ranks ranks(2, {0, 1, 2});
    std::mt19937 random(seed);  // NOLINT
    const std::int64_t until = now_ns() + 700'000'000;
    ranks.fabric.datagrams = [&](const ScriptedDatagram& datagram) {
      if (now_ns() > until) return Fate::deliver;
      const auto epoch = static_cast<unsigned>((until - now_ns()) / 100'000'000);
      const unsigned way = datagram.sender[14] * 2U + datagram.sender[15];
      if ((epoch + seed + way) % 5 != 0) return Fate::drop;
      return random() % 4 == 0 ? Fate::later : Fate::deliver;
    };
    ranks.open_all();
    (void)ranks.link(0, 1);
    (void)ranks.link(1, 0);
    ASSERT_TRUE(ranks.eventually([&] { return ranks.at(0).flushed() && ranks.at(1).flushed(); }));
    ranks.fabric.deliver_later_ones(true);
    ranks.turn();
    expect_one_connection(ranks);
  }
}

// Both ends anew, as a bond does it.
void reconnect(Ranks& ranks) {
  Endpoint& back = ranks.link(1, 0);
  ranks.link(0, 1).abandon(Status(Code::unavailable, "given up", 1));
  ASSERT_TRUE(ranks.at(0).reconnect(1, ranks.at(1).address()).ok());
  ASSERT_TRUE(ranks.eventually([&] { return !back.failure().ok(); }));
  ranks.meet(0, 1);
}

TEST(IbConnecting, APathThatFailedIsSoughtFirstWhereItWorkedLast) {
  Ranks ranks(2, {0, 1, 2});
  std::set<GidOnWire> tried;
  const auto only = [&](int network) {
    tried.clear();
    ranks.fabric.datagrams = [&, network](const ScriptedDatagram& datagram) {
      tried.insert({datagram.sender, datagram.receiver});
      const bool whole = datagram.sender[14] == network && datagram.receiver[14] == network;
      return whole || network < 0 ? Fate::deliver : Fate::drop;
    };
  };
  only(2);
  ranks.open_all();
  expect_one_connection(ranks);
  only(-1);
  reconnect(ranks);
  EXPECT_EQ(tried, (std::set<GidOnWire>{{Fabric::gid(2, 1), Fabric::gid(2, 2)},
                                        {Fabric::gid(2, 2), Fabric::gid(2, 1)}}));
  // Where it does not work any more, the others are tried again.
  only(1);
  reconnect(ranks);
  EXPECT_EQ(gid_of(ranks, 0), "(GID 1)");
}

// The interface's IP address was changed: what lives goes on, what connects again takes the new one.
TEST(IbConnecting, NewAddressesTakeThePlaceOfOldOnes) {
  Ranks ranks(2);
  ranks.open_all();
  expect_one_connection(ranks);
  ranks.fabric.change_gids("scripted0", {Fabric::gid(0, 9)});
  ranks.at(0).sleep(0, [] { return false; });
  EXPECT_TRUE(ranks.link(0, 1).failure().ok());
  std::set<GidOnWire> tried;
  ranks.fabric.datagrams = [&](const ScriptedDatagram& datagram) {
    tried.insert({datagram.sender, datagram.receiver});
    return Fate::deliver;
  };
  reconnect(ranks);
  EXPECT_TRUE(tried.contains({Fabric::gid(0, 9), Fabric::gid(0, 2)}));
  EXPECT_FALSE(tried.contains({Fabric::gid(0, 1), Fabric::gid(0, 2)}));
  const std::string path = ranks.link(0, 1).describe();
  EXPECT_NE(path.find("10.0.0.9 to 10.0.0.2"), std::string::npos) << path;
}

// And where none is left for a while, those that were known stay.
TEST(IbConnecting, AddressesThatAreAllGoneAreWaitedFor) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.fabric.change_gids("scripted0", {});
  ranks.at(0).sleep(0, [] { return false; });
  ranks.fabric.change_gids("scripted0", {Fabric::gid(0, 1)});
  ranks.at(0).sleep(0, [] { return false; });
  expect_one_connection(ranks);
}

TEST(IbConnecting, AnAddressWithoutARouteIsPassedOver) {
  Ranks ranks(2, {0, 1});
  ranks.open_all();
  ranks.fabric.refuse("create_ah", EHOSTUNREACH, 0, 6);
  expect_one_connection(ranks);
}

// The kernel asks for the address of a neighbor's card for a second. Others must not wait for that.
TEST(IbConnecting, WhileANeighborIsLookedUpOthersAreServed) {
  Ranks ranks(3);
  ranks.open_all();
  ranks.meet(0, 1);
  std::promise<void> answer;
  ranks.fabric.routes = [answered = answer.get_future().share()] {
    answered.wait_for(std::chrono::seconds(10));
  };
  const std::int64_t start = now_ns();
  (void)ranks.link(0, 2);
  for (std::uint32_t n = 0; n < 20; ++n) {
    ASSERT_TRUE(ranks.post(0, 1, n));
    ASSERT_TRUE(ranks.receive(0, 1, n));
  }
  EXPECT_LT(now_ns() - start, 5'000'000'000);
  EXPECT_NE(ranks.link(0, 2).describe().find("not connected"), std::string::npos);
  answer.set_value();
  ranks.meet(0, 2);
}

// The peer's card may be another one by now, with the same address.
TEST(IbConnecting, AfterAFailureTheNeighborIsLookedUpAnew) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  const int before = ranks.fabric.calls("create_ah");
  reconnect(ranks);
  EXPECT_TRUE(ranks.eventually([&] { return ranks.fabric.calls("create_ah") >= before + 2; }));
}

// What the peer posted before it began anew is taken from the old path, and that one then goes.
TEST(IbConnecting, APathThatIsReleasedAfterItFailedCanBeForgotten) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  Endpoint& old = ranks.link(1, 0);
  for (std::uint32_t n = 0; n < 3; ++n) ASSERT_TRUE(ranks.post(0, 1, n));
  ASSERT_TRUE(ranks.eventually([&] { return old.arrived(1) >= 3; }));
  reconnect(ranks);
  ASSERT_FALSE(old.failure().ok());
  while (old.front(1).header != nullptr) old.release(1);
  ranks.at(1).forget(old);
  for (int turns = 0; turns < 50; ++turns) ranks.turn();
  EXPECT_TRUE(ranks.post(0, 1, 9));
  EXPECT_TRUE(ranks.receive(0, 1, 9));
}

// The address by which a question came is gone before the way back is known.
TEST(IbConnecting, AnAddressThatGoesWhileItsNeighborIsLookedUpIsNotUsed) {
  Ranks ranks(2, {0, 1});
  ranks.open_all();
  std::promise<void> answer;
  ranks.fabric.routes = [answered = answer.get_future().share()] {
    answered.wait_for(std::chrono::seconds(10));
  };
  (void)ranks.link(0, 1);
  (void)ranks.link(1, 0);
  ranks.turn();
  ranks.fabric.change_gids("scripted1", {Fabric::gid(1, 2)});
  ranks.at(1).sleep(0, [] { return false; });
  answer.set_value();
  ranks.meet(0, 1);
  for (const Rank self : {0, 1}) {
    EXPECT_NE(ranks.link(self, 1 - self).describe().find("10.0.1."), std::string::npos);
  }
}

TEST(IbConnecting, OfPathsThatFailedAgainAndAgainNothingIsLeft) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  const std::string lives = ranks.fabric.leaks();
  for (int round = 0; round < 8; ++round) {
    Endpoint& there = ranks.link(0, 1);
    Endpoint& back = ranks.link(1, 0);
    reconnect(ranks);
    ranks.at(0).forget(there);
    ranks.at(1).forget(back);
    // Queue pairs and routes that were replaced go a little later.
    ASSERT_TRUE(ranks.eventually([&] { return ranks.fabric.leaks() == lives; }))
        << ranks.fabric.leaks() << " and not " << lives;
  }
}

// Who only tried whether a peer answers leaves nothing there, unless the peer has taken its end.
TEST(IbConnecting, AConnectionThatIsNotNeededLeavesNothingAtThePeer) {
  Ranks ranks(2);
  ranks.open_all();
  const auto connected = [&]() -> Endpoint& {
    Endpoint& tried = *must(ranks.at(0).reconnect(1, ranks.at(1).address()));
    EXPECT_TRUE(ranks.eventually([&] { return tried.connected(); }));
    return tried;
  };
  const auto drop = [&](Endpoint& tried) {
    tried.abandon(Status(Code::unavailable, "only tried", 1));
    ranks.at(0).forget(tried);
  };
  const auto held = [&] { return ranks.fabric.reliable_pairs("scripted1").size(); };
  for (int round = 0; round < 3; ++round) {
    Endpoint& tried = connected();
    EXPECT_GT(held(), 0U);
    drop(tried);
    ASSERT_TRUE(ranks.eventually([&] { return held() == 0; }));
  }
  Endpoint& tried = connected();
  Endpoint& back = ranks.link(1, 0);
  drop(tried);
  for (int turns = 0; turns < 50; ++turns) ranks.turn();
  EXPECT_TRUE(back.failure().ok());
  EXPECT_GT(held(), 0U);
}

// What would have told it was lost, and the peer, who slept, hears old questions alone.
TEST(IbConnecting, ALatePeerLearnsThatAConnectionIsNotNeeded) {
  Ranks ranks(2);
  ranks.open_all();
  int asked = 0;
  int dropped = 0;
  ranks.fabric.datagrams = [&](const ScriptedDatagram& datagram) {
    Greeting greeting;
    std::memcpy(&greeting, datagram.bytes.data(), sizeof greeting);
    if (greeting.level == Level::asking) ++asked;
    return greeting.level == Level::dropped && dropped++ == 0 ? Fate::drop : Fate::deliver;
  };
  Endpoint& tried = *must(ranks.at(0).reconnect(1, ranks.at(1).address()));
  ASSERT_TRUE(eventually(ranks.at(0), [&] { return asked > 0; }));
  tried.abandon(Status(Code::unavailable, "only tried", 1));
  ranks.at(0).forget(tried);
  ASSERT_TRUE(ranks.eventually([&] { return dropped > 1; }));
  EXPECT_TRUE(ranks.eventually([&] { return ranks.fabric.reliable_pairs("scripted1").empty(); }));
}

TEST(IbConnecting, WhereNobodyAnswersNothingBlocksAndPostsWait) {
  Ranks ranks(2);
  ranks.fabric.datagrams = [](const ScriptedDatagram&) { return Fate::drop; };
  ranks.open_all();
  Endpoint& peer = ranks.link(0, 1);
  for (std::uint32_t n = 0; n < ranks.options.slots; ++n) EXPECT_TRUE(ranks.post(0, 1, n));
  EXPECT_FALSE(ranks.post(0, 1, 99)) << "full";
  SCOPED_TRACE(peer.describe());
  EXPECT_NE(peer.describe().find("not connected"), std::string::npos);
  std::vector<std::byte> local(8);
  ASSERT_EQ(peer.post_read(local, {PieceForm::view, 64, 8}, 5), Posted::posted);
  EXPECT_FALSE(ranks.at(0).flushed());
  const std::int64_t start = now_ns();
  ranks.at(0).close();
  EXPECT_LT(now_ns() - start, 5'000'000'000) << "close() is bounded";
  std::array<Completion, 2> completions;
  ASSERT_EQ(ranks.at(0).poll(completions), 1u);
  EXPECT_EQ(completions[0].ticket, 5u);
  EXPECT_EQ(completions[0].status.code(), Code::closed);
  EXPECT_EQ(peer.released(1), ranks.options.slots);
}

TEST(IbConnecting, AClosedInterfaceSaysSo) {
  Ranks ranks(2);
  ranks.open_all();
  const std::string address = ranks.at(1).address();
  ranks.at(1).close();
  Endpoint& peer = *must(ranks.at(0).connect(1, address));
  EXPECT_TRUE(ranks.eventually([&] { return peer.peer_closed(); }));
}

// The first Greeting from rank 0 to rank 1, with what `change` does to it, from then on.
template <typename Change>
void expect_dropped(Change change) {
  Ranks ranks(2);
  ScriptedDatagram seen;
  ranks.fabric.datagrams = [&](const ScriptedDatagram& datagram) {
    seen = datagram;
    return Fate::drop;
  };
  ranks.open_all();
  (void)ranks.link(0, 1);
  ASSERT_TRUE(ranks.eventually([&] { return !seen.bytes.empty(); }));
  Greeting greeting;
  std::memcpy(&greeting, seen.bytes.data(), sizeof greeting);
  change(greeting);
  std::memcpy(seen.bytes.data(), &greeting, sizeof greeting);
  ranks.fabric.deliver(seen);
  ranks.turn();
  EXPECT_TRUE(ranks.fabric.reliable_pairs("scripted1").empty()) << "a stranger was let in";
  ranks.fabric.datagrams = nullptr;
  ranks.meet(0, 1);
}

TEST(IbConnecting, AGreetingOfAnotherKindIsDropped) {
  expect_dropped([](Greeting& g) { g.magic ^= 1; });
  expect_dropped([](Greeting& g) { ++g.version; });
  expect_dropped([](Greeting& g) { ++g.job; });
  expect_dropped([](Greeting& g) { ++g.context; });
  expect_dropped([](Greeting& g) { ++g.to; });
  expect_dropped([](Greeting& g) { ++g.channels; });
  expect_dropped([](Greeting& g) { g.slots *= 2; });
  expect_dropped([](Greeting& g) { ++g.payload_bytes; });
  expect_dropped([](Greeting& g) { ++g.piece_bytes; });
  expect_dropped([](Greeting& g) { ++g.queue_pairs; });
  expect_dropped([](Greeting& g) { g.rank = 1U << 20; });
  expect_dropped([](Greeting& g) { g.receiver[15] ^= 64; });
  expect_dropped([](Greeting& g) { g.kind ^= 1; });
}

// Most of what is changed is dropped; what passes is a stranger that nobody answers.
TEST(IbConnecting, NoiseNeverFaults) {
  Ranks ranks(2);
  std::mt19937 random(7);  // NOLINT
  ScriptedDatagram seen;
  ranks.fabric.datagrams = [&](const ScriptedDatagram& datagram) {
    if (seen.bytes.empty()) seen = datagram;
    return Fate::drop;
  };
  ranks.open_all();
  (void)ranks.link(0, 1);
  ASSERT_TRUE(ranks.eventually([&] { return !seen.bytes.empty(); }));
  for (int round = 0; round < 3000; ++round) {
    ScriptedDatagram noise = seen;
    for (unsigned flips = random() % 4 + 1; flips != 0; --flips)
      noise.bytes[random() % noise.bytes.size()] = static_cast<std::byte>(random());
    if (round % 5 == 0) noise.bytes.resize(random() % 200);
    ranks.fabric.deliver(noise);
    ranks.at(1).progress();
  }
  ranks.fabric.datagrams = nullptr;
}

TEST(IbConnecting, APathThatCannotBePreparedSaysWhat) {
  for (const char* verb : {"modify_qp:rtr", "modify_qp:rts"}) {
    Ranks ranks(2);
    ranks.open_all();
    ranks.fabric.refuse(verb, EINVAL);
    Endpoint& peer = ranks.link(0, 1);
    Endpoint& back = ranks.link(1, 0);
    ASSERT_TRUE(ranks.eventually([&] { return !peer.failure().ok() || !back.failure().ok(); }));
    const Status& why = peer.failure().ok() ? back.failure() : peer.failure();
    EXPECT_NE(why.text().find("connecting a queue pair"), std::string_view::npos);
  }
}

TEST(IbConnecting, QueuePairsHaveUdpSourcePortsOfTheirOwn) {
  IbOptions ib;
  ib.queue_pairs = 3;
  ib.udp_source_port = 65'535;  // and then the first ones
  Ranks ranks(2, {0}, ib);
  ranks.open_all();
  ranks.meet(0, 1);
  ASSERT_GE(ranks.fabric.connected.size(), 6u);
  constexpr std::array kPorts = {65'535u, 49'152u, 49'153u};
  for (std::size_t q = 0; q < 6; ++q) {
    const std::uint32_t label = ranks.fabric.connected[q].ah_attr.grh.flow_label;
    EXPECT_NE(label, 0u) << "the driver's choice";
    EXPECT_EQ(49'152 + ((label ^ label >> 14) & 0x3fff), kPorts[q % 3]);
  }
}

TEST(IbConnecting, WhatTheUserAsksForReachesTheQueuePairs) {
  IbOptions ib;
  ib.mtu = 1024;
  ib.traffic_class = 104;
  ib.service_level = 3;
  ib.timeout = 14;
  ib.retries = 5;
  ib.rnr_timer = 20;
  Ranks ranks(2, {0}, ib);
  ranks.open_all();
  ranks.meet(0, 1);
  ASSERT_GE(ranks.fabric.connected.size(), 2u);
  for (const ibv_qp_attr& how : ranks.fabric.connected) {
    EXPECT_EQ(how.path_mtu, IBV_MTU_1024);
    EXPECT_EQ(how.ah_attr.grh.traffic_class, 104);
    EXPECT_EQ(how.ah_attr.sl, 3);
    EXPECT_EQ(how.min_rnr_timer, 20);
  }
  ASSERT_EQ(ranks.fabric.sending.size(), ranks.fabric.connected.size());
  for (const ibv_qp_attr& how : ranks.fabric.sending) {
    EXPECT_EQ(how.timeout, 14);
    EXPECT_EQ(how.retry_cnt, 5);
    EXPECT_EQ(how.rnr_retry, 7) << "for ever";
  }
}

TEST(IbConnecting, AnotherNumberOfQueuePairsIsNamed) {
  Ranks ranks(2);
  ranks.ib.queue_pairs = 3;
  ranks.open(0);
  ranks.ib.queue_pairs = 2;
  ranks.open(1);
  const Status status = ranks.at(0).connect(1, ranks.at(1).address()).status();
  EXPECT_EQ(status.code(), Code::mismatch);
  EXPECT_EQ(status.rank(), 1);
  EXPECT_NE(status.text().find("WEFT_IB_QUEUE_PAIRS = 2, this rank 3"), std::string_view::npos)
      << status.text();
}

TEST(IbConnecting, NobodyAsksForMoreReadsAtATimeThanThePeerAnswers) {
  Ranks ranks(2);
  ranks.fabric.limits.reads_asked = 8;
  ranks.open(0);
  ranks.fabric.limits.reads_answered = 4;
  ranks.open(1);
  ranks.meet(0, 1);
  std::multiset<int> asked, answered;
  for (const ibv_qp_attr& how : ranks.fabric.sending) asked.insert(how.max_rd_atomic);
  for (const ibv_qp_attr& how : ranks.fabric.connected) answered.insert(how.max_dest_rd_atomic);
  EXPECT_EQ(asked, (std::multiset{4, 4, 8, 8}))
      << "two queue pairs each: 4 of rank 1, 8 can be asked for";
  EXPECT_EQ(answered, (std::multiset{4, 4, 16, 16}));
}

// "ib:scripted0/1 to rank 1 (GID 0, 10.0.0.1 to 10.0.0.2: both RoCE v2, …)", whoever began.
TEST(IbConnecting, APathTellsItsAddressesAndWhyThese) {
  Ranks ranks(2);
  ranks.open_all();
  Endpoint& there = ranks.link(0, 1);
  ASSERT_TRUE(ranks.eventually([&] { return ranks.at(0).flushed() && ranks.at(1).flushed(); }));
  const std::string path = there.describe();
  const std::string back = ranks.link(1, 0).describe();
  EXPECT_NE(path.find("(GID 0, 10.0.0.1 to 10.0.0.2: both RoCE v2"), std::string::npos) << path;
  EXPECT_NE(back.find("(GID 0, 10.0.0.2 to 10.0.0.1: both RoCE v2"), std::string::npos) << back;
}

TEST(IbConnecting, WithoutAUdpSourcePortTheDriverChooses) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  for (const ibv_qp_attr& how : ranks.fabric.connected) EXPECT_EQ(how.ah_attr.grh.flow_label, 0u);
}

TEST(IbConnecting, AConnectThatIsRefusedLeavesNothing) {
  for (const char* verb : {"create_qp", "modify_qp:init", "reg_mr"}) {
    Ranks ranks(2);
    ranks.open_all();
    for (int times = 0; times < 300; ++times) {
      ranks.fabric.refuse(verb, EIO);
      const Status status = ranks.at(0).connect(1, ranks.at(1).address()).status();
      ASSERT_NE(status.text().find("scripted0"), std::string_view::npos) << status.to_string();
      ranks.turn();
    }
    ranks.fabric.allow();
    ranks.meet(0, 1);
  }
}

}  // namespace
}  // namespace weft::ib
