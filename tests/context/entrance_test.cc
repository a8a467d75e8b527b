// Ranks that come back to a job and are let in. A rank that leaves its store and joins it again is a new
// incarnation as a new process is; survivors_test.cc kills and restarts processes.
#include "engine/context/entrance.h"

#include <gtest/gtest.h>
#include <weft/graph.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "engine/bootstrap/bootstrap.h"
#include "tests/context/job.h"
#include "tests/context/store_of_events.h"

namespace weft {
namespace {

constexpr const char* kKey = "the key of a job in a test";

Config skip_config(std::int64_t deadline_ms = 20'000) {
  Config config = test_config();
  config.on_death = OnDeath::skip;
  config.deadline_ms = deadline_ms;
  return config;
}

using Wrap = std::function<std::shared_ptr<Store>(std::shared_ptr<Store>)>;

// One process of a rank: its store and its context. It ends with a goodbye, unless it has died before.
class Process {
 public:
  Process(const RendezvousServer& server, Rank rank, int ranks,
          const Config& config = skip_config(), const Wrap& wrap = {}) {
    auto store = connect_store(
        {server.address(), rank, ranks, kKey, 20'000, config.on_death == OnDeath::skip},
        Deadline::after_ms(20'000));
    EXPECT_TRUE(store.ok()) << store.status().to_string();
    if (!store.ok()) return;
    number_ = (*store)->incarnation();
    if (wrap) store = wrap(*store);
    store_ = *store;
    auto made = Context::create(config, *std::move(store));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) context_ = *std::move(made);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    context_.reset();
    if (store_ != nullptr)
      (void)store_->goodbye(Deadline::after_ms(20'000));  // or a context has said it
  }
  void die() {
    context_.reset();
    store_.reset();
  }
  [[nodiscard]] Context& context() { return *context_; }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_ = -1;
  std::shared_ptr<Store> store_;
  std::unique_ptr<Context> context_;
};

using Body = std::function<void(const RendezvousServer& server, Rank rank)>;

void run_ranks(int ranks, const Body& body) {
  RendezvousOptions options;
  options.size = ranks;
  options.job_key = kKey;
  const auto server = RendezvousServer::start(options).value();
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { body(*server, rank); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<Rank> let_in(Context& context, std::span<const Output> state = {}) {
  const Result<std::vector<Rank>> ranks = context.admit(state);
  EXPECT_TRUE(ranks.ok()) << ranks.status().to_string();
  return ranks.ok() ? *ranks : std::vector<Rank>();
}

// Lets ranks in until all are there, and returns who came.
std::vector<Rank> let_all_in(Context& context, std::span<const Output> state = {}) {
  std::vector<Rank> all;
  while (std::ssize(context.members()) < context.size()) {
    const Result<std::vector<Rank>> ranks = context.admit(state);
    EXPECT_TRUE(ranks.ok()) << ranks.status().to_string();
    if (!ranks.ok()) break;
    all.insert(all.end(), ranks->begin(), ranks->end());
  }
  return all;
}

int sum_of_ranks(Context& context) {
  const int rank = context.rank();
  int sum = -1;
  const Status status = context.allreduce(in(&rank, 1), out(&sum, 1), ReduceOp::sum);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return sum;
}

// Rank `gone` leaves; the others notice, and `body` runs on them and on the rank's next incarnation.
void run_with_one_back(int ranks, Rank gone,
                       const std::function<void(Context&, bool is_back)>& body) {
  run_ranks(ranks, [&](const RendezvousServer& server, Rank rank) {
    std::optional<Process> here(std::in_place, server, rank, ranks);
    ASSERT_TRUE(here->context().barrier().ok());
    if (rank == gone) {
      here->die();
      here.emplace(server, rank, ranks);
      EXPECT_EQ(here->number(), 1);
      return body(here->context(), true);
    }
    ASSERT_TRUE(here->context().barrier().ok());  // which needed it
    body(here->context(), false);
  });
}

TEST(Entrance, ARankComesBackWithTheStateOfItsNeighbor) {
  run_with_one_back(4, 2, [](Context& context, bool is_back) {
    // Who comes in has the graph of the others.
    if (!is_back) {
      EXPECT_TRUE(context.set_graph(*ring_graph(4)).ok());
    }
    std::vector<float> model(70'000, is_back ? -1.F : static_cast<float>(context.rank()));
    std::int64_t step = is_back ? 0 : 7;
    const std::vector<Output> state = {out(model.data(), model.size()), out(&step, 1)};
    EXPECT_EQ(let_all_in(context, state), std::vector<Rank>{2});
    EXPECT_EQ(step, 7);
    // Its first in-neighbor on the ring is rank 1; the others keep what they have.
    EXPECT_TRUE(
        holds(model.data(), model.size(), is_back ? 1.F : static_cast<float>(context.rank())));
    EXPECT_EQ(context.size(), 4);
    EXPECT_EQ(context.members(), (std::vector<Rank>{0, 1, 2, 3}));
    EXPECT_EQ(sum_of_ranks(context), 6);
    double x = context.rank(), y = -1;
    EXPECT_TRUE(context.neighbor_allreduce(in(&x, 1), out(&y, 1)).ok());
    EXPECT_NEAR(y, (x + (context.rank() + 1) % 4 + (context.rank() + 3) % 4) / 3, 1e-12);
    EXPECT_EQ(let_in(context, state), std::vector<Rank>{});
  });
}

// A store that never tells that a rank has come back.
class LateStore final : public StoreOfEvents {
 public:
  using StoreOfEvents::StoreOfEvents;
  [[nodiscard]] std::optional<StoreEvent> next_event() override {
    std::optional<StoreEvent> event = store_->next_event();
    while (event && event->kind == StoreEvent::Kind::returned) event = store_->next_event();
    return event;
  }
};

// Events travel apart from what others do because of them. Nobody goes another way than those who know more.
TEST(Entrance, WhoHasNotHeardOfTheReturnLetsTheRankIn) {
  run_ranks(3, [](const RendezvousServer& server, Rank rank) {
    const Wrap late = [](std::shared_ptr<Store> store) -> std::shared_ptr<Store> {
      return std::make_shared<LateStore>(std::move(store));
    };
    std::optional<Process> here(std::in_place, server, rank, 3, skip_config(),
                                rank == 1 ? late : Wrap());
    ASSERT_TRUE(here->context().barrier().ok());
    if (rank == 2) {
      here->die();
      here.emplace(server, rank, 3);
    } else {
      ASSERT_TRUE(here->context().barrier().ok());  // which needed it
    }
    EXPECT_EQ(let_all_in(here->context()), std::vector<Rank>{2});
    EXPECT_EQ(sum_of_ranks(here->context()), 3);
  });
}

// What needs all ranks is there again, on the same context.
TEST(Entrance, OperationsWithAPartForEachRankAndWindowsGoOn) {
  run_with_one_back(3, 0, [](Context& context, bool) {
    (void)let_all_in(context);
    const int rank = context.rank();
    std::vector<int> all(3, -1);
    EXPECT_TRUE(context.allgather(in(&rank, 1), out(all.data(), 3)).ok());
    EXPECT_EQ(all, (std::vector<int>{0, 1, 2}));
    EXPECT_TRUE(context.set_graph(*fully_connected_graph(3)).ok());
    double x = rank;
    auto window = context.win_create(out(&x, 1), "x");
    ASSERT_TRUE(window.ok()) << window.status().to_string();
    EXPECT_TRUE(window->put(out(&x, 1)).ok());
    EXPECT_TRUE(context.win_fence().ok());
    EXPECT_TRUE(window->update().ok());
    EXPECT_NEAR(x, 1, 1e-12);
    EXPECT_TRUE(context.win_free("x").ok());
  });
}

TEST(Entrance, CallsBeforeItAreErrorsThatSaySo) {
  run_with_one_back(3, 1, [](Context& context, bool is_back) {
    if (is_back) {
      EXPECT_EQ(context.rank(), 1);
      EXPECT_EQ(context.size(), 3);
      EXPECT_EQ(context.members(), std::vector<Rank>{1});
      const Status early = context.barrier();
      EXPECT_EQ(early.code(), Code::unavailable);
      EXPECT_EQ(early.text(),
                "barrier: rank 1 has come back to its job and is not let in yet; its first call is "
                "admit()");
    }
    (void)let_all_in(context);
    EXPECT_EQ(sum_of_ranks(context), 3);
  });
}

TEST(Entrance, AStateOfAnotherShapeIsAnErrorOfTheNewcomer) {
  run_with_one_back(3, 2, [](Context& context, bool is_back) {
    std::vector<float> model(is_back ? 10 : 20, 1);
    const std::vector<Output> state = {out(model.data(), model.size())};
    if (is_back) {
      const Status status = context.admit(state).status();
      EXPECT_EQ(status.code(), Code::mismatch);
      EXPECT_NE(
          status.text().find(
              "tensor 0 of rank 0 has 80 bytes of type f32, that of this rank 40 bytes of f32"),
          std::string_view::npos)
          << status.to_string();
      EXPECT_EQ(context.barrier().code(), Code::mismatch);
      return;
    }
    // It is in for a moment, or was never.
    const auto has_come = [&] {
      const auto ranks = let_in(context, state);
      return !ranks.empty();
    };
    for (int step = 0; step < 200 && !has_come(); ++step) {
      EXPECT_EQ(sum_of_ranks(context), 1);
    }
    EXPECT_EQ(sum_of_ranks(context), 1);
  });
}

TEST(Entrance, NobodyIsLetInByOthersThatDoNotCallIt) {
  std::atomic<bool> has_waited = false;
  run_ranks(2, [&](const RendezvousServer& server, Rank rank) {
    std::optional<Process> here(std::in_place, server, rank, 2);
    ASSERT_TRUE(here->context().barrier().ok());
    if (rank == 0) {
      has_waited.wait(false);
      return;
    }
    here->die();
    here.emplace(server, rank, 2, skip_config(300));
    const Status status = here->context().admit({}).status();
    EXPECT_EQ(status.code(), Code::timed_out);
    EXPECT_EQ(status.text(),
              "admit: rank 1 has come back, and the others have not called admit() for 300 ms");
    has_waited = true;
    has_waited.notify_all();
  });
}

// Who has come back and does something else first keeps nobody waiting.
TEST(Entrance, TheOthersGoOnUntilARankWaits) {
  std::atomic<bool> have_gone_on = false;
  run_with_one_back(3, 2, [&](Context& context, bool is_back) {
    if (is_back) {
      have_gone_on.wait(false);
    } else {
      for (int step = 0; step < 20; ++step) EXPECT_TRUE(let_in(context).empty());
      EXPECT_EQ(sum_of_ranks(context), 1);
      if (context.rank() == 0) {
        have_gone_on = true;
        have_gone_on.notify_all();
      }
    }
    (void)let_all_in(context);
    EXPECT_EQ(sum_of_ranks(context), 3);
  });
}

// Two come back to a job of which nobody is left.
TEST(Entrance, WhereNobodyIsLeftThoseWhoWaitAreTold) {
  std::atomic<int> gone = 0;
  run_ranks(2, [&](const RendezvousServer& server, Rank rank) {
    std::optional<Process> here(std::in_place, server, rank, 2);
    ASSERT_TRUE(here->context().barrier().ok());
    here->die();
    ++gone;
    gone.notify_all();
    for (int now = gone; now < 2; now = gone) gone.wait(now);
    here.emplace(server, rank, 2);
    EXPECT_EQ(here->number(), 1);
    const Status status = here->context().admit({}).status();
    EXPECT_EQ(status.code(), Code::unavailable) << status.to_string();
  });
}

TEST(Entrance, ARankOutsideSplitsNothing) {
  run_with_one_back(3, 1, [](Context& context, bool is_back) {
    if (is_back) {
      EXPECT_EQ(context.split(0).status().code(), Code::unavailable);
    }
    (void)let_all_in(context);
  });
}

TEST(Entrance, IsForTheJobsOwnContextThatGoesOn) {
  run_job(2, [](Context& context) {
    EXPECT_EQ(context.admit({}).status().code(), Code::invalid_argument);
  });
  run_job(
      2,
      [](Context& context) {
        EXPECT_TRUE(let_in(context).empty());
        const auto part = context.split(0).value();
        EXPECT_EQ(
            part->admit({}).status().text(),
            "admit: ranks are let in to the job's own context, not to one of split() or shrink()");
        const std::vector<Output> none = {Output{nullptr, 1, DataType::f32}};
        EXPECT_EQ(context.admit(none).status().text(),
                  "admit: a tensor of the state has no memory");
      },
      skip_config());
}

TEST(Entrance, ItsTextIsReadAsItWasWritten) {
  const Entrance written{.number = 3,
                         .resumed_at = 1ULL << 40,
                         .members = {{0, 0}, {2, 5}},
                         .newcomers = {{{1, 2}, 0}, {{3, 1}, 2}}};
  const Result<Entrance> read = Entrance::from_text(written.to_text(), 4);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->number, 3);
  EXPECT_EQ(read->resumed_at, 1ULL << 40);
  EXPECT_EQ(read->members, written.members);
  ASSERT_EQ(read->newcomers.size(), 2U);
  EXPECT_EQ(read->newcomers[1].who, (Incarnation{3, 1}));
  EXPECT_EQ(read->newcomers[1].giver, 2);
  for (const char* wrong :
       {"", "1", "1 2 3 ", "1 2 1 0 0 7 ", "1 2 1 0 -1 ", "x ", "1 2 99999999999 ", "1 2 1 4 0 ",
        "1 2 2 1 0 1 0 ", "1 2 1 0 0 0 1 0 ", "1 2 1 0 0 1 1 9 "})
    EXPECT_FALSE(Entrance::from_text(wrong, 4).ok()) << wrong;
}

}  // namespace
}  // namespace weft
