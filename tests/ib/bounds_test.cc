// Queues that nobody may overflow, and memory that runs out.
#include <cerrno>

#include "tests/ib/pair.h"
#include "tests/transport/shared_buffer.h"

namespace weft::ib {
namespace {

// All ranks post to rank 0 and back as fast as they may; everything arrives in order.
void storm(Ranks& ranks, Rank count, std::uint32_t each) {
  std::vector<std::uint32_t> there(static_cast<std::size_t>(count), 0);
  std::vector<std::uint32_t> back = there;
  const auto pour = [&](Rank from, Rank to, std::uint32_t& sent) {
    while (sent < each && ranks.post(from, to, sent)) ++sent;
  };
  std::vector<std::uint32_t> got = there;
  std::vector<std::uint32_t> got_back = there;
  const auto drink = [&](Rank from, Rank to, std::uint32_t& next) {
    Endpoint& end = ranks.link(to, from);
    for (Notice notice = end.front(1); notice.header != nullptr; notice = end.front(1)) {
      EXPECT_TRUE(is_number(notice, next++, 9));
      end.release(1);
    }
  };
  ASSERT_TRUE(ranks.eventually([&] {
    bool done = true;
    for (Rank rank = 1; rank < count; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      pour(rank, 0, there[r]);
      pour(0, rank, back[r]);
      drink(rank, 0, got[r]);
      drink(0, rank, got_back[r]);
      done = done && got[r] == each && got_back[r] == each;
    }
    return done;
  }));
}

TEST(IbBounds, NoMessageFindsTheReceiveQueueEmpty) {
  for (const std::uint32_t depth : {128U, 512U, 8192U}) {
    Ranks ranks(8);
    ranks.ib.receive_depth = depth;
    ranks.options.slots = 64;  // more than the windows: these are what bounds
    ranks.open_all();
    storm(ranks, 8, 1000);
    EXPECT_EQ(ranks.fabric.receives_missed, 0u) << depth;
  }
}

// A device may take a part of a list.
TEST(IbBounds, NoReceiveBufferIsLostOrGivenTwice) {
  Ranks ranks(3);
  ranks.ib.receive_depth = 64;
  ranks.open_all();
  for (int round = 0; round < 20; ++round) {
    ranks.fabric.refuse("post_srq_recv", ENOMEM, 5 + round, 1);
    storm(ranks, 3, 40);
    EXPECT_EQ(ranks.fabric.receives_missed, 0u);
  }
}

TEST(IbBounds, ManyPeersShareTheReceiveQueueUntilItIsDivided) {
  constexpr Rank kRanks = 20;
  Ranks ranks(kRanks);
  ranks.ib.receive_depth = 100;  // six times the least that a peer gets
  ranks.open_all();
  int connected = 0;
  for (Rank peer = 1; peer < kRanks; ++peer) {
    const Status status = ranks.at(0).connect(peer, ranks.at(peer).address()).status();
    connected += status.ok() ? 1 : 0;
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), Code::exhausted);
    EXPECT_NE(status.text().find("receive queue"), std::string_view::npos) << status.text();
  }
  EXPECT_EQ(connected, 6);
  storm(ranks, 7, 100);
  EXPECT_EQ(ranks.fabric.receives_missed, 0u);
}

TEST(IbBounds, PeersThatLeftGiveTheirPlacesBack) {
  Ranks ranks(2);
  ranks.ib.receive_depth = 64;
  ranks.open_all();
  for (int round = 0; round < 30; ++round) {
    ASSERT_NO_FATAL_FAILURE(ranks.meet(0, 1)) << round;
    Endpoint& old = ranks.link(0, 1);
    if (round % 2 == 0) old.abandon(Status(Code::unavailable, "given up", 1));
    ranks.drop(1);
    ranks.open(1);
    ASSERT_TRUE(ranks.eventually([&] { return old.peer_closed() || !old.failure().ok(); }));
    ranks.turn();
  }
}

TEST(IbBounds, ShortSendQueuesAreNeverOverflowed) {
  for (const std::uint32_t depth : {1U, 2U, 3U, 4U, 7U, 16U}) {
    Ranks ranks(3);
    ranks.ib.send_depth = depth;
    ranks.ib.receive_depth = 64;
    ranks.options.slots = 64;
    ranks.open_all();
    storm(ranks, 3, 400);
    EXPECT_EQ(ranks.fabric.receives_missed, 0u) << depth;
  }
}

// Work requests without a completion of their own keep their places until a later one has one.
TEST(IbBounds, ManyQuietPeersDoNotUseUpTheCompletionQueue) {
  Ranks ranks(6);
  ranks.fabric.limits.max_cqe = 512;
  ranks.ib.receive_depth = 4096;
  ranks.fabric.limits.max_srq_wr = 4096;
  ranks.open_all();
  storm(ranks, 6, 200);
}

TEST(IbBounds, QueuesThatStandStillFillUpAndGoOn) {
  Ranks ranks(2);
  ranks.ib.send_depth = 4;
  ranks.open_all();
  ranks.meet(0, 1);
  ranks.fabric.hold(true);
  std::uint32_t sent = 1;
  for (int turns = 0; turns < 50; ++turns) {
    if (ranks.post(0, 1, sent)) ++sent;
    ranks.turn();
  }
  EXPECT_LE(sent - 1, ranks.options.slots);
  ranks.fabric.hold(false);
  for (std::uint32_t n = 1; n < sent; ++n) EXPECT_TRUE(ranks.receive(0, 1, n));
}

TEST(IbBounds, ClosingWhileQueuesStandStillIsBounded) {
  Ranks ranks(2);
  ranks.ib.send_depth = 4;
  ranks.open_all();
  ranks.meet(0, 1);
  Endpoint& peer = ranks.link(0, 1);
  ranks.fabric.hold(true);
  std::uint32_t sent = 1;
  while (sent < 9 && ranks.post(0, 1, sent)) ++sent;
  ranks.turn();
  const std::int64_t start = now_ns();
  ranks.at(0).close();
  EXPECT_LT(now_ns() - start, 5'000'000'000);
  EXPECT_EQ(peer.released(1), sent);
}

// What was under way when the peer closed gets no answer if its queue pairs were gone by then.
TEST(IbBounds, ClosingDoesNotWaitForAPeerThatClosed) {
  Ranks ranks(2);
  ranks.ib.send_depth = 4;
  ranks.open_all();
  ranks.meet(0, 1);
  ranks.at(1).close();
  ranks.fabric.hold(true);
  for (std::uint32_t n = 1; n < 5; ++n) ASSERT_TRUE(ranks.post(0, 1, n)) << "it has not looked yet";
  const std::int64_t start = now_ns();
  ranks.at(0).close();
  EXPECT_LT(now_ns() - start, 500'000'000);
  EXPECT_TRUE(ranks.link(0, 1).peer_closed());
  ranks.fabric.hold(false);
}

TEST(IbBounds, WithoutMemoryToLockConnectingSaysWhatToSet) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.fabric.limits.memlock = ranks.fabric.locked;
  const Status status = ranks.at(0).connect(1, ranks.at(1).address()).status();
  EXPECT_EQ(status.code(), Code::exhausted);
  EXPECT_NE(status.text().find("ulimit -l"), std::string_view::npos) << status.text();
}

TEST(IbBounds, ARingThatCannotBeLockedEndsThePathWithTheReason) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  ranks.fabric.limits.memlock = ranks.fabric.locked;
  Endpoint& peer = ranks.link(0, 1);
  EXPECT_EQ(peer.post_notice(2, numbered_header(0), {}), Posted::full);
  EXPECT_EQ(peer.failure().code(), Code::exhausted);
  EXPECT_NE(peer.failure().text().find("ulimit -l"), std::string_view::npos);
}

// Where pieces are sent from the caller's memory they are copied instead; elsewhere always.
TEST(IbBounds, PiecesTravelAlthoughTheirMemoryCannotBeLocked) {
  Ranks ranks(2);
  ranks.open_all();
  const std::vector<std::byte> piece = numbered_payload(0, ranks.at(0).piece_bytes());
  ASSERT_EQ(ranks.link(0, 1).post_notice(1, numbered_header(9), {}), Posted::posted);
  ASSERT_TRUE(ranks.receive(0, 1, 9, 0));
  ASSERT_TRUE(ranks.eventually([&] { return ranks.link(0, 1).released(1) == 1; }));
  // Room for the ring of copies and for the receiver's, and for nothing of the caller's.
  const std::size_t ring = ranks.options.slots * (piece.size() + 4096);
  ranks.fabric.limits.memlock = ranks.fabric.locked + 2 * ring + 8192;
  std::vector<std::vector<std::byte>> sources;
  for (std::uint32_t n = 0; n < 4; ++n) {
    sources.push_back(numbered_payload(n, n % 2 == 0 ? piece.size() : 100'000));
    ASSERT_EQ(ranks.link(0, 1).post_piece(1, numbered_header(n), sources[n]), Posted::posted);
  }
  for (std::uint32_t n = 0; n < 4; ++n) EXPECT_TRUE(ranks.receive(0, 1, n, sources[n].size()));
}

TEST(IbBounds, OneSidedWorkOnMemoryThatCannotBeLockedFailsByCompletion) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  SharedBuffer buffer(64);
  std::vector<std::byte> local(64);
  ranks.fabric.limits.memlock = ranks.fabric.locked;
  ASSERT_EQ(ranks.link(0, 1).post_read(local, describe_memory(buffer.bytes().data(), 64), 1),
            Posted::posted);
  std::array<Completion, 1> completion;
  ASSERT_TRUE(ranks.eventually([&] { return ranks.at(0).poll(completion) == 1; }));
  EXPECT_EQ(completion[0].status.code(), Code::exhausted) << completion[0].status.to_string();
}

}  // namespace
}  // namespace weft::ib
