// Paths that break: who is told what, what stays readable, and that every ticket completes.
#include <poll.h>

#include <cerrno>

#include "tests/ib/pair.h"
#include "tests/transport/shared_buffer.h"

namespace weft::ib {
namespace {

bool has(const Status& status, const std::string& part) {
  return status.text().find(part) != std::string_view::npos;
}

TEST(IbFailures, AFailedWorkRequestEndsThePathAndNamesIt) {
  for (const ibv_wc_status how : {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_FATAL_ERR}) {
    Ranks ranks(2);
    ranks.open_all();
    ranks.meet(0, 1);
    ASSERT_TRUE(ranks.post(1, 0, 1));
    Endpoint& peer = ranks.link(0, 1);
    ASSERT_TRUE(ranks.eventually([&] { return peer.arrived(1) == 2; }));
    std::uint32_t number = 0;
    ranks.fabric.works = [&](const ScriptedWork& work) {
      if (work.device != "scripted0") return IBV_WC_SUCCESS;
      number = work.queue_pair;
      return how;
    };
    ASSERT_TRUE(ranks.post(0, 1, 1));
    ASSERT_TRUE(ranks.eventually([&] { return !peer.failure().ok(); }));
    EXPECT_EQ(peer.failure().rank(), 1);
    for (const std::string& part :
         {std::string("ib:scripted0/1 to rank 1"), "queue pair " + std::to_string(number),
          std::string("work request "), "status " + std::to_string(how)})
      EXPECT_TRUE(has(peer.failure(), part)) << part << ": " << peer.failure().text();
    EXPECT_FALSE(ranks.post(0, 1, 2)) << "a failed path answers full";
    EXPECT_TRUE(is_number(peer.front(1), 1, 9)) << "what was whole stays readable";
    peer.release(1);
    EXPECT_EQ(peer.front(1).header, nullptr);
  }
}

TEST(IbFailures, EveryTicketCompletesOnceInOrder) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  SharedBuffer buffer(4096);
  const RemoteBuffer remote = describe_memory(buffer.bytes().data(), 4096);
  std::vector<std::byte> local(4096);
  Endpoint& peer = ranks.link(0, 1);
  int reads = 0;
  ranks.fabric.works = [&](const ScriptedWork& work) {
    if (work.opcode != IBV_WR_RDMA_READ) return IBV_WC_SUCCESS;
    return ++reads == 6 ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS;
  };
  for (std::uint64_t ticket = 0; ticket < 12; ++ticket)
    ASSERT_EQ(peer.post_read(local, remote, ticket), Posted::posted);
  std::uint64_t next = 0;
  std::array<Completion, 5> some;
  ASSERT_TRUE(ranks.eventually([&] {
    const std::size_t count = ranks.at(0).poll(some);
    for (std::size_t c = 0; c < count; ++c, ++next) {
      EXPECT_EQ(some[c].ticket, next);
      EXPECT_EQ(some[c].status.ok(), next < 5) << next;
    }
    return next == 12;
  }));
  EXPECT_EQ(ranks.at(0).poll(some), 0u);
}

// What became of one operation.
Status end_of(Ranks& ranks, std::uint64_t ticket) {
  Completion completion;
  EXPECT_TRUE(ranks.eventually([&] { return ranks.at(0).poll({&completion, 1}) == 1; }));
  EXPECT_EQ(completion.ticket, ticket);
  return completion.status;
}

TEST(IbFailures, MemoryThatThePeerCannotPinIsNoFaultOfTheAsker) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  SharedBuffer buffer(4096);
  const RemoteBuffer remote = describe_memory(buffer.bytes().data(), 4096);
  std::vector<std::byte> local(4096);
  Endpoint& peer = ranks.link(0, 1);
  ASSERT_EQ(peer.post_read(local, remote, 1), Posted::posted);
  ranks.fabric.refuse("reg_mr", ENOMEM);
  const Status status = end_of(ranks, 1);
  EXPECT_EQ(status.code(), Code::exhausted) << status.text();
  EXPECT_EQ(status.rank(), 1);
  EXPECT_TRUE(has(status, "ulimit -l")) << status.text();
  ranks.fabric.allow();
  ASSERT_EQ(peer.post_read(local, remote, 2), Posted::posted);
  EXPECT_TRUE(end_of(ranks, 2).ok()) << "asked anew";
}

TEST(IbFailures, ADeviceWithoutAtomicOperationsSaysSoAndKeepsItsPaths) {
  Ranks ranks(2);
  ranks.fabric.limits.atomics = IBV_ATOMIC_NONE;
  ranks.open_all();
  ranks.meet(0, 1);
  SharedBuffer buffer(64);
  std::uint64_t found = 0;
  const RemoteBuffer word = describe_memory(buffer.bytes().data(), 8);
  ASSERT_EQ(ranks.link(0, 1).post_compare_swap(word, 0, 1, &found, 3), Posted::posted);
  const Status status = end_of(ranks, 3);
  EXPECT_EQ(status.code(), Code::unavailable);
  EXPECT_TRUE(has(status, "no atomic operations")) << status.text();
  EXPECT_TRUE(ranks.link(0, 1).failure().ok());
}

TEST(IbFailures, PiecesOfABrokenPathAreSettled) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  Endpoint& peer = ranks.link(0, 1);
  const std::vector<std::byte> piece = numbered_payload(1, ranks.at(0).piece_bytes());
  ranks.fabric.works = [](const ScriptedWork& work) {
    return work.bytes > 100'000 ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS;
  };
  ASSERT_EQ(peer.post_piece(1, numbered_header(1), piece), Posted::posted);
  ASSERT_TRUE(ranks.eventually([&] { return !peer.failure().ok(); }));
  EXPECT_EQ(peer.locally_completed(1), 2u);
}

TEST(IbFailures, APeerThatIsGoneIsNoticed) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  Endpoint& peer = ranks.link(0, 1);
  ranks.link(1, 0).abandon(Status(Code::unavailable, "given up"));
  ASSERT_TRUE(ranks.post(0, 1, 1));
  ASSERT_TRUE(ranks.eventually([&] { return !peer.failure().ok(); }));
  EXPECT_EQ(peer.failure().code(), Code::timed_out);
}

TEST(IbFailures, ARefusedPostEndsThePath) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  Endpoint& peer = ranks.link(0, 1);
  ranks.fabric.refuse("post_send", ENOMEM);
  ASSERT_TRUE(ranks.post(0, 1, 1));
  ranks.turn();
  EXPECT_TRUE(has(peer.failure(), "queue pair")) << peer.failure().to_string();
  ranks.fabric.allow();
}

TEST(IbFailures, ACountBelowZeroIsSurvived) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  ranks.fabric.refuse("poll_cq", EIO);
  for (int turns = 0; turns < 10; ++turns) ranks.turn();
  ranks.fabric.allow();
  ASSERT_TRUE(ranks.post(0, 1, 1));
  EXPECT_TRUE(ranks.receive(0, 1, 1));
}

// Events are looked for after a sleep.
void look(Ranks& ranks, Rank rank) {
  ranks.at(rank).sleep(0, [] { return true; });
}

TEST(IbFailures, AFatalEventOfAQueuePairEndsItsPath) {
  for (const ibv_event_type type :
       {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR}) {
    Ranks ranks(3);
    ranks.open_all();
    ranks.meet(0, 1);
    const std::uint32_t number = ranks.fabric.reliable_pairs("scripted0").front();
    ranks.meet(0, 2);
    ranks.fabric.raise(number, type);
    look(ranks, 0);
    EXPECT_TRUE(has(ranks.link(0, 1).failure(), "scripted event"));
    EXPECT_EQ(ranks.link(0, 1).failure().rank(), 1);
    EXPECT_TRUE(ranks.link(0, 2).failure().ok()) << "only that path";
  }
}

TEST(IbFailures, EventsThatWaitWhileTheirQueuePairGoesAreNothing) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  for (const std::uint32_t number : ranks.fabric.reliable_pairs("scripted0"))
    ranks.fabric.raise(number, IBV_EVENT_QP_FATAL);
  look(ranks, 0);
  look(ranks, 0);
  EXPECT_FALSE(ranks.link(0, 1).failure().ok());
}

TEST(IbFailures, AFailedDeviceOrQueueEndsAllPaths) {
  for (const ibv_event_type type : {IBV_EVENT_DEVICE_FATAL, IBV_EVENT_SRQ_ERR, IBV_EVENT_CQ_ERR}) {
    Ranks ranks(3);
    ranks.open_all();
    ranks.meet(0, 1);
    ranks.meet(0, 2);
    std::vector<std::byte> local(8);
    ASSERT_EQ(ranks.link(0, 1).post_read(local, {PieceForm::view, 64, 8}, 5), Posted::posted);
    if (type == IBV_EVENT_DEVICE_FATAL) {
      ranks.fabric.raise(Ranks::device(0), type);
    } else {
      ranks.fabric.raise(ranks.fabric.reliable_pairs(Ranks::device(0)).front(), type);
    }
    look(ranks, 0);
    for (const Rank peer : {1, 2})
      EXPECT_TRUE(has(ranks.link(0, peer).failure(), "to rank " + std::to_string(peer)));
    std::array<Completion, 2> completions;
    EXPECT_EQ(ranks.at(0).poll(completions), 1u);
  }
}

// A device that is gone leaves its descriptors readable.
TEST(IbFailures, AFailedDeviceLetsItsUserSleep) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  ranks.fabric.raise(Ranks::device(0), IBV_EVENT_DEVICE_FATAL);
  look(ranks, 0);
  EXPECT_TRUE(ranks.at(0).arm());
  ranks.fabric.raise(Ranks::device(0), IBV_EVENT_PORT_ERR);
  pollfd ready{must(ranks.at(0).descriptor()), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
  ranks.at(0).disarm();
}

// The device removes what has come over a queue pair when that is reset.
TEST(IbFailures, APathThatEndsKeepsNoPlaceOfTheReceiveQueue) {
  IbOptions ib;
  ib.receive_depth = 64;
  Ranks ranks(3, {0}, ib);
  ranks.open_all();
  ranks.meet(0, 1);
  ranks.meet(0, 2);
  ASSERT_TRUE(
      ranks.eventually([&] { return ranks.fabric.receives_waiting(Ranks::device(0)) == 64; }));
  for (std::uint32_t n = 1; n <= 2; ++n) ASSERT_TRUE(ranks.post(1, 0, n));
  ranks.at(1).progress();
  ranks.fabric.run();
  ASSERT_LT(ranks.fabric.receives_waiting(Ranks::device(0)), 64u);
  ranks.link(0, 1).abandon(Status(Code::unavailable, "given up"));
  EXPECT_TRUE(
      ranks.eventually([&] { return ranks.fabric.receives_waiting(Ranks::device(0)) == 64; }));
}

TEST(IbFailures, EventsOfThePortEndNothing) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  for (const ibv_event_type type :
       {IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE})
    ranks.fabric.raise(Ranks::device(0), type);
  look(ranks, 0);
  EXPECT_TRUE(ranks.link(0, 1).failure().ok());
  ASSERT_TRUE(ranks.post(0, 1, 1));
  EXPECT_TRUE(ranks.receive(0, 1, 1));
}

TEST(IbFailures, EventsOfTheDevicesOtherPortAreNotOurs) {
  Ranks ranks(1);
  ranks.open_all();
  for (const int port : {2, 1}) {
    const int before = ranks.fabric.calls("query_gid_table");
    ranks.fabric.raise(Ranks::device(0), IBV_EVENT_GID_CHANGE, port);
    look(ranks, 0);
    EXPECT_EQ(ranks.fabric.calls("query_gid_table") - before, port == 1 ? 1 : 0);
  }
}

// As a subnet manager does it.
TEST(IbFailures, APortThatIsNumberedAnewGreetsWithItsNewNumber) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.fabric.limits.lid = 77;
  ranks.fabric.raise(Ranks::device(0), IBV_EVENT_LID_CHANGE);
  look(ranks, 0);
  Greeting greeting;
  ranks.fabric.datagrams = [&](const ScriptedDatagram& datagram) {
    if (datagram.sender[15] == 1) std::memcpy(&greeting, datagram.bytes.data(), sizeof greeting);
    return Fate::deliver;
  };
  ranks.meet(0, 1);
  EXPECT_EQ(greeting.lid, 77);
}

// One datagram that cannot be sent, as its route has gone, ends their queue pair.
TEST(IbFailures, DatagramsGoOnAfterAFailure) {
  Ranks ranks(5);
  ranks.open_all();
  ranks.meet(0, 1);
  for (const Rank peer : {2, 3, 4}) {
    ranks.fabric.end_datagrams(Ranks::device(0));
    ranks.meet(0, peer);
  }
  EXPECT_TRUE(ranks.link(0, 1).failure().ok()) << "its queue pairs are others";
  EXPECT_EQ(ranks.fabric.violations(), "");
}

TEST(IbFailures, DatagramsThatCannotGoOnAreTriedAgain) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.fabric.refuse("modify_qp:reset", EIO, 0, 3);
  ranks.fabric.end_datagrams(Ranks::device(0));
  ranks.meet(0, 1);
}

// A turn finds them too, if not every turn.
TEST(IbFailures, ABusyLaneFindsEventsWithoutSleeping) {
  Ranks ranks(2);
  ranks.open_all();
  ranks.meet(0, 1);
  ranks.fabric.raise(Ranks::device(0), IBV_EVENT_DEVICE_FATAL);
  EXPECT_TRUE(ranks.eventually([&] { return !ranks.link(0, 1).failure().ok(); }));
}

}  // namespace
}  // namespace weft::ib
