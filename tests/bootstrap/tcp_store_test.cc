// The rendezvous over TCP: joining, being refused, hosting, and losing the server.
#include "engine/bootstrap/board.h"
#include "tests/bootstrap/stores.h"

namespace weft::testing {
namespace {

// An address where nobody listens: a server had the port a moment ago.
Address free_address() {
  return RendezvousServer::start(server_options(1)).value()->address();
}

Status refusal(const ConnectOptions& options) {
  return connect_store(options, patient()).status();
}

TEST(Rendezvous, RefusesAnotherKey) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  ConnectOptions options = rank_options(*server, 0, 2);
  options.job_key = "the key of another job";
  const Status status = refusal(options);
  EXPECT_EQ(status.code(), Code::no_permission);
  EXPECT_TRUE(contains(status.text(), "job key")) << status.to_string();
  EXPECT_NE(join(*server, 0, 2), nullptr);
}

TEST(Rendezvous, RefusesAnotherSize) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  const Status status = refusal(rank_options(*server, 1, 3));
  EXPECT_EQ(status.code(), Code::mismatch);
  EXPECT_TRUE(contains(status.text(), "rank 1 expects 3 ranks; this job has 2"))
      << status.to_string();
}

TEST(Rendezvous, RefusesARankTwice) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  auto first = join(*server, 1, 2);
  const Status twice = refusal(rank_options(*server, 1, 2));
  EXPECT_EQ(twice.code(), Code::mismatch);
  EXPECT_TRUE(contains(twice.text(), "rank 1 has joined already")) << twice.to_string();
  const auto other = join(*server, 0, 2);
  first.reset();
  EXPECT_EQ(wait_for_event(*other).rank, 1);
  const Status again = refusal(rank_options(*server, 1, 2));
  EXPECT_TRUE(contains(again.text(), "was in this job before")) << again.to_string();
}

TEST(Rendezvous, RefusesARankThatNoJobHas) {
  EXPECT_EQ(refusal({free_address(), 2, 2, kKey, 1000}).code(), Code::invalid_argument);
  EXPECT_EQ(refusal({free_address(), -1, 2, kKey, 1000}).code(), Code::invalid_argument);
}

TEST(Rendezvous, WaitsForAServerThatIsNotUpYet) {
  const Address address = free_address();
  std::thread early([&] {
    const auto store = connect_store({address, 0, 1, kKey, 30'000}, patient());
    EXPECT_TRUE(store.ok()) << store.status().to_string();
  });
  RendezvousOptions options = server_options(1);
  options.port = address.port;
  const auto server = RendezvousServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  early.join();
}

TEST(Rendezvous, GivesUpAtTheDeadlineWhenNobodyListens) {
  const Address address = free_address();
  const Status status = connect_store({address, 0, 2, kKey, 1000}, Deadline::after_ms(20)).status();
  EXPECT_EQ(status.code(), Code::timed_out);
  EXPECT_TRUE(contains(status.text(), address.to_string())) << status.to_string();
  EXPECT_TRUE(contains(status.text(), "Connection refused")) << status.to_string();
}

TEST(Rendezvous, NamesRanksThatNeverJoined) {
  const auto server = RendezvousServer::start(server_options(4)).value();
  const auto zero = join(*server, 0, 4);
  const auto two = join(*server, 2, 4);
  const Status fence = zero->fence(Deadline::after_ms(1));
  EXPECT_EQ(fence.text(), "fence: ranks 1, 3 never joined the job; rank 2 did not come to it");
  const Status get = two->get_from(3, "x", Deadline::after_ms(1)).status();
  EXPECT_EQ(get.text(), "get 'x': rank 3 never joined the job");
  EXPECT_TRUE(
      contains(two->get("y", Deadline::after_ms(1)).status().text(), "ranks 1, 3 never joined"));
}

// It has the job's key, so it is the rank that the others wait for, and it will never come.
TEST(Rendezvous, ARankRefusedForItsSizeIsNamedToTheOthersAtOnce) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  const auto store = join(*server, 0, 2);
  EXPECT_EQ(refusal(rank_options(*server, 1, 3)).code(), Code::mismatch);
  EXPECT_EQ(wait_for_event(*store).rank, 1);
  for (const Status& status :
       {store->fence(patient()), store->get_from(1, "x", patient()).status()}) {
    EXPECT_EQ(status.code(), Code::mismatch);
    EXPECT_EQ(status.rank(), 1);
    EXPECT_EQ(status.text(),
              "rank 1 could not join: rank 1 expects 3 ranks; this job has 2 (it came from "
              "127.0.0.1)");
  }
}

TEST(Rendezvous, AProcessWithAnotherKeyIsNamedWithTheMissingRank) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  const auto store = join(*server, 0, 2);
  ConnectOptions options = rank_options(*server, 1, 2);
  options.job_key = "another key, of another job";
  for (int i = 0; i < 9; ++i) EXPECT_EQ(refusal(options).code(), Code::no_permission);
  const std::string said =
      "rank 1 never joined the job; a process at 127.0.0.1 that took itself for rank 1 was "
      "refused: "
      "it has another WEFT_JOB_KEY";
  EXPECT_EQ(store->fence(Deadline::after_ms(1)).text(), "fence: " + said);
  EXPECT_EQ(store->get_from(1, "x", Deadline::after_ms(1)).status().text(), "get 'x': " + said);
  EXPECT_NE(join(*server, 1, 2), nullptr);
}

TEST(Rendezvous, AnErrorNamesAFewOfTheProcessesWithAnotherKey) {
  const auto server = RendezvousServer::start(server_options(8)).value();
  const auto store = join(*server, 0, 8);
  for (Rank rank = 1; rank < 8; ++rank) {
    ConnectOptions options = rank_options(*server, rank, 8);
    options.job_key = "another key, of another job";
    EXPECT_EQ(refusal(options).code(), Code::no_permission);
  }
  const Status fence = store->fence(Deadline::after_ms(1));
  EXPECT_TRUE(contains(fence.text(), "took itself for rank 4")) << fence.to_string();
  EXPECT_FALSE(contains(fence.text(), "took itself for rank 5")) << fence.to_string();
}

// A rank that fails before the others have come: they learn it when they do, and why.
TEST(Rendezvous, ARankThatCouldNotTakePartTellsThoseThatComeLater) {
  RendezvousOptions options = server_options(2);
  options.host_rank = 0;
  const auto server = RendezvousServer::start(options).value();
  const auto zero = join(*server, 0, 2);
  zero->set_failure(Status(Code::unavailable, "no interface eth7"));
  ASSERT_TRUE(zero->goodbye(patient()).ok());
  constexpr std::int64_t kStayMs = 20;
  const std::int64_t before = now_ns();
  EXPECT_TRUE(server->wait_until_empty(patient(), Deadline::after_ms(kStayMs)).ok());
  EXPECT_GE(now_ns() - before, kStayMs * 1'000'000) << "rank 1 may still come";
  std::thread host([&] { EXPECT_TRUE(server->wait_until_empty(patient(), patient()).ok()); });
  const auto one = join(*server, 1, 2);
  for (const Status& status : {one->fence(patient()), one->get_from(0, "x", patient()).status()}) {
    EXPECT_EQ(status.code(), Code::peer_left);
    EXPECT_EQ(status.text(), "rank 0 has left the job: no interface eth7");
  }
  ASSERT_TRUE(one->goodbye(patient()).ok());
  host.join();
}

TEST(Rendezvous, AllRanksMayJoinAnewWhenAllHaveLeft) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  auto zero = join(*server, 0, 2);
  auto one = join(*server, 1, 2);
  ASSERT_TRUE(zero->put("x", "old").ok());
  ASSERT_TRUE(zero->goodbye(patient()).ok());
  zero.reset();
  std::thread waiting([&] { zero = join(*server, 0, 2); });
  ASSERT_TRUE(one->goodbye(patient()).ok());
  waiting.join();
  one = join(*server, 1, 2);
  ASSERT_TRUE(one->put("x", "new").ok());
  EXPECT_EQ(zero->get_from(1, "x", patient()).value(), "new");
  std::thread other([&] { EXPECT_TRUE(one->fence(patient()).ok()); });
  EXPECT_TRUE(zero->fence(patient()).ok());
  other.join();
}

TEST(Rendezvous, ARankThatIsBackEarlyIsToldForWhomItWaits) {
  struct Nobody : Board::Outbox {
    void reply(Rank, const Reply&) override {}
    void event(Rank, const StoreEvent&) override {}
  } nobody;
  Board board(2, nobody);
  for (const Rank rank : {0, 1}) board.join(rank);
  board.handle(0, {BoardRequest::Kind::leave, 1, kNoRank, {}, {}});
  const Status early = board.may_join(0);
  EXPECT_EQ(early.code(), Code::unavailable) << "which is tried again";
  EXPECT_EQ(early.text(), "rank 0 has left; it may join again when rank 1 has left too");
  board.handle(1, {BoardRequest::Kind::leave, 1, kNoRank, {}, {}});
  EXPECT_TRUE(board.may_join(0).ok());
}

TEST(Rendezvous, AProcessThatEndedAfterItsGoodbyeIsMissedByTheNextJob) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  for (const Rank rank : {0, 1}) ASSERT_TRUE(join(*server, rank, 2)->goodbye(patient()).ok());
  server->declare_dead(1, "it exited with status 0");
  const auto zero = join(*server, 0, 2);
  EXPECT_EQ(zero->fence(patient()).text(), "rank 1 died: it exited with status 0");
}

TEST(Rendezvous, ARankDeclaredDeadEndsTheWaitsForIt) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  const auto store = join(*server, 0, 2);
  server->declare_dead(1, "killed by signal 11");
  EXPECT_EQ(wait_for_event(*store).reason, "killed by signal 11");
  const Status fence = store->fence(patient());
  EXPECT_EQ(fence.code(), Code::peer_died);
  EXPECT_EQ(fence.text(), "rank 1 died: killed by signal 11");
  EXPECT_FALSE(connect_store(rank_options(*server, 1, 2), patient()).ok());
}

TEST(Rendezvous, ARankThatJoinsLateHearsOfEarlierDeaths) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  server->declare_dead(0, "gone before");
  const auto store = join(*server, 1, 2);
  EXPECT_EQ(wait_for_event(*store).rank, 0);
}

TEST(Rendezvous, ALostServerEndsAllWaits) {
  auto server = RendezvousServer::start(server_options(2)).value();
  const auto store = join(*server, 0, 2);
  std::thread waiter([&] { EXPECT_EQ(store->fence(patient()).code(), Code::closed); });
  server.reset();
  waiter.join();
  EXPECT_EQ(wait_for_event(*store).kind, StoreEvent::Kind::lost);
  EXPECT_EQ(store->put("x", "y").code(), Code::closed);
}

TEST(Rendezvous, AServerInARanksProcessGoesWithThatRank) {
  RendezvousOptions options = server_options(2);
  options.host_rank = 0;
  auto server = RendezvousServer::start(options).value();
  const auto store = join(*server, 1, 2);
  server.reset();
  const StoreEvent event = wait_for_event(*store);
  EXPECT_EQ(event.kind, StoreEvent::Kind::died);
  EXPECT_EQ(event.rank, 0);
  const Status status = store->fence(patient());
  EXPECT_EQ(status.code(), Code::peer_died);
  EXPECT_EQ(status.rank(), 0);
}

TEST(Rendezvous, RankZeroHostsForAPlainEnvironmentAndLeavesLast) {
  Config config;
  config.size = 3;
  config.rendezvous = free_address().to_string();
  config.job_key = kKey;
  std::vector<std::thread> ranks;
  for (Rank rank = 0; rank < config.size; ++rank) {
    Config own = config;
    own.rank = rank;
    ranks.emplace_back([own]() mutable {
      const auto store = open_store(own);
      ASSERT_TRUE(store.ok()) << store.status().to_string();
      EXPECT_TRUE((*store)->fence(patient()).ok());
      // Ranks that need the store after rank 0 has said goodbye still have it.
      if (own.rank != 0) {
        EXPECT_TRUE((*store)->put("last/" + std::to_string(own.rank), "x").ok());
      }
      EXPECT_TRUE((*store)->goodbye(patient()).ok());
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(Rendezvous, AnAddressInUseIsNamed) {
  const auto server = RendezvousServer::start(server_options(1)).value();
  RendezvousOptions options = server_options(1);
  options.port = server->address().port;
  const Status status = RendezvousServer::start(options).status();
  EXPECT_TRUE(contains(status.text(), server->address().to_string())) << status.to_string();
  EXPECT_TRUE(contains(status.text(), "in use")) << status.to_string();
}

Config member(Rank rank, const Address& address, const std::string& key) {
  Config config;
  config.rank = rank;
  config.size = 2;
  config.rendezvous = address.to_string();
  config.job_key = key;
  config.deadline_ms = 30'000;
  return config;
}

// Two jobs were given one address. The second has no rank that gets in, each knows why, and the
// first notices nothing.
TEST(Rendezvous, ASecondJobAtTheSameAddressIsTurnedAway) {
  const Address address = free_address();
  Config first = member(0, address, kKey);
  const auto zero = open_store(first);
  ASSERT_TRUE(zero.ok()) << zero.status().to_string();
  for (const Rank rank : {0, 1}) {
    Config second = member(rank, address, "the key of the second job");
    const Status status = open_store(second).status();
    EXPECT_TRUE(contains(status.text(), address.to_string())) << status.to_string();
    EXPECT_TRUE(contains(status.text(), rank == 0 ? "another WEFT_RENDEZVOUS" : "another job"))
        << status.to_string();
    if (rank == 1) {
      EXPECT_EQ(status.code(), Code::no_permission);
    }
  }
  Config other = member(1, address, kKey);
  const auto one = open_store(other);
  ASSERT_TRUE(one.ok()) << one.status().to_string();
  std::thread fence([&] { EXPECT_TRUE((*one)->fence(patient()).ok()); });
  EXPECT_TRUE((*zero)->fence(patient()).ok());
  fence.join();
  EXPECT_TRUE((*one)->goodbye(patient()).ok());
  EXPECT_TRUE((*zero)->goodbye(patient()).ok());
}

TEST(Rendezvous, ThatNeverCompletesNamesWhoIsMissing) {
  const Address address = free_address();
  Config early = member(1, address, kKey);
  early.deadline_ms = 20;
  const Status nobody = open_store(early).status();
  EXPECT_EQ(nobody.code(), Code::timed_out);
  EXPECT_EQ(nobody.rank(), 0);
  EXPECT_TRUE(contains(nobody.text(), "rank 0 holds it")) << nobody.to_string();
  Config host = member(0, address, kKey);
  const auto zero = open_store(host);
  ASSERT_TRUE(zero.ok()) << zero.status().to_string();
  const Status fence = (*zero)->fence(Deadline::after_ms(20));
  EXPECT_EQ(fence.code(), Code::timed_out);
  EXPECT_EQ(fence.rank(), 1);
  EXPECT_EQ(fence.text(), "fence: rank 1 never joined the job");
}

TEST(Rendezvous, NeedsAKey) {
  RendezvousOptions options = server_options(1);
  options.job_key.clear();
  EXPECT_EQ(RendezvousServer::start(options).status().code(), Code::invalid_argument);
}

TEST(JobKey, IsLongAndNew) {
  const std::string one = make_job_key().value();
  EXPECT_EQ(one.size(), 64U);
  EXPECT_NE(one, make_job_key().value());
}

// A process that asks to come back gets the number of a rank that is gone.
TEST(TcpStore, ARankThatIsGoneComesBackAsItsNextIncarnation) {
  Job job = tcp_job(3);
  const auto come_back = [&](Rank rank) {
    ConnectOptions options = rank_options(*job.server, rank, 3);
    options.may_return = true;
    auto store = connect_store(options, patient());
    EXPECT_TRUE(store.ok()) << store.status().to_string();
    return store.ok() ? *store : nullptr;
  };
  Store& other = *job.ranks[0];
  for (int incarnation = 1; incarnation <= 2; ++incarnation) {
    job.ranks[2].reset();
    StoreEvent event = wait_for_event(other);
    EXPECT_EQ(event.kind, StoreEvent::Kind::died);
    EXPECT_EQ(event.incarnation, incarnation - 1);
    EXPECT_EQ(refusal(rank_options(*job.server, 2, 3)).code(), Code::mismatch);
    job.ranks[2] = come_back(2);
    ASSERT_NE(job.ranks[2], nullptr);
    EXPECT_EQ(job.ranks[2]->incarnation(), incarnation);
    event = wait_for_event(other);
    EXPECT_EQ(event.kind, StoreEvent::Kind::returned);
    EXPECT_EQ(event.rank, 2);
    EXPECT_EQ(event.incarnation, incarnation);
  }
  // It waits for its turn where its predecessor is there, and hears of those who came back before it.
  ASSERT_TRUE(job.ranks[1]->goodbye(patient()).ok());
  job.ranks[1] = come_back(1);
  ASSERT_NE(job.ranks[1], nullptr);
  const StoreEvent seen = wait_for_event(*job.ranks[1]);
  EXPECT_EQ(seen.kind, StoreEvent::Kind::returned);
  EXPECT_EQ(seen.rank, 2);
  EXPECT_EQ(seen.incarnation, 2);
  ASSERT_TRUE(job.ranks[2]->put("key", "value").ok());
  EXPECT_EQ(job.ranks[1]->get_from(2, "key", patient()).value(), "value");
}

TEST(TcpStore, ARankWaitsToComeBackWhileItsPredecessorIsThere) {
  Job job = tcp_job(2);
  ConnectOptions options = rank_options(*job.server, 1, 2);
  options.may_return = true;
  const Status early = connect_store(options, Deadline::after_ms(50)).status();
  EXPECT_EQ(early.code(), Code::timed_out);
  EXPECT_TRUE(contains(early.text(), "when it is gone")) << early.to_string();
  std::thread next([&] {
    const auto store = connect_store(options, patient());
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    EXPECT_EQ((*store)->incarnation(), 1);
  });
  job.ranks[1].reset();
  next.join();
}

}  // namespace
}  // namespace weft::testing
