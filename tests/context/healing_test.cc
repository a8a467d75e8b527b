// OnDeath::skip: what operations do and say when a rank is gone. A rank that leaves early is gone as one that
// has died is; survivors_test.cc kills ranks.
#include <weft/graph.h>

#include <atomic>

#include "engine/request/request.h"
#include "tests/context/job.h"

namespace weft {
namespace {

Config skip_config() {
  Config config = test_config();
  config.on_death = OnDeath::skip;
  return config;
}

// Rank `gone` leaves at once; the others do `body` when they go on without it.
void run_without(int ranks, Rank gone, const RankBody& body) {
  run_job(
      ranks,
      [&](Context& context) {
        ASSERT_TRUE(context.barrier().ok());
        if (context.rank() == gone) return;
        ASSERT_TRUE(context.barrier().ok());  // which needed it
        body(context);
        const Status last = context.barrier();
        EXPECT_TRUE(last.ok()) << last.to_string();
      },
      skip_config());
}

double averaged(Context& context, double x, const NeighborWeights& weights = {}) {
  double y = -1;
  const Status status = context.neighbor_allreduce(in(&x, 1), out(&y, 1), weights);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return y;
}

void expect_gone(const Status& status, Rank rank, std::string_view text) {
  EXPECT_EQ(status.code(), Code::peer_died);
  EXPECT_EQ(status.rank(), rank) << status.to_string();
  EXPECT_NE(status.text().find(text), std::string_view::npos) << status.to_string();
}

TEST(Healing, KeepsRanksAndTellsWhoIsThere) {
  run_without(4, 1, [](Context& context) {
    EXPECT_EQ(context.size(), 4);
    EXPECT_EQ(context.members(), (std::vector<Rank>{0, 2, 3}));
    int rank = context.rank(), sum = 0;
    EXPECT_TRUE(context.allreduce(in(&rank, 1), out(&sum, 1), ReduceOp::sum).ok());
    EXPECT_EQ(sum, 5);
    EXPECT_TRUE(context.broadcast(in(&rank, 1), out(&rank, 1), 2).ok());
    EXPECT_EQ(rank, 2);
  });
}

TEST(Healing, NeighborsOfTheGoneRankMeet) {
  run_without(5, 2, [](Context& context) {
    EXPECT_TRUE(context.set_graph(*ring_graph(5)).ok());
    EXPECT_DOUBLE_EQ(context.graph().weight(3, 1), 1. / 3);
    const std::vector<Rank> ring = {0, 1, 3, 4};
    const auto place = std::ranges::find(ring, context.rank()) - ring.begin();
    const double expected = (ring[static_cast<std::size_t>((place + 3) % 4)] + context.rank() +
                             ring[static_cast<std::size_t>((place + 1) % 4)]) /
                            3.;
    EXPECT_NEAR(averaged(context, context.rank()), expected, 1e-12);
  });
}

TEST(Healing, WeightsOfACallLeaveTheGoneRanksShareHere) {
  run_without(3, 1, [](Context& context) {
    const Rank other = 2 - context.rank();
    const std::vector<NeighborWeight> from = {{1, 0.25}, {other, 0.5}}, to = {{1, 1}, {other, 1}};
    NeighborWeights pull;
    pull.self = 0.25;
    pull.sources = from;
    pull.destinations = to;
    EXPECT_NEAR(averaged(context, context.rank(), pull), 0.5 * context.rank() + 0.5 * other, 1e-12);
    // What is pushed is neither lost nor made.
    const std::vector<NeighborWeight> pushed = {{1, 0.25}, {other, 0.25}};
    NeighborWeights push;
    push.self = 0.5;
    push.destinations = pushed;
    push.push_sum = true;
    EXPECT_TRUE(context.set_graph(*fully_connected_graph(3)).ok());
    EXPECT_NEAR(averaged(context, context.rank(), push), 0.75 * context.rank() + 0.25 * other,
                1e-12);
  });
}

TEST(Healing, OperationsThatNeedTheGoneRankNameIt) {
  run_without(3, 2, [](Context& context) {
    float x = 1;
    std::vector<float> y(3);
    expect_gone(context.broadcast(in(&x, 1), out(&x, 1), 2), 2,
                "broadcast: rank 2, the root, is gone");
    expect_gone(context.send(in(&x, 1), 2), 2, "rank 2, the other end, is gone");
    expect_gone(context.allgather(in(&x, 1), out(y.data(), 3)), 2,
                "shrink() makes a context without it");
    const std::vector<Rank> group = {0, 1, 2};
    expect_gone(context.group_average(in(&x, 1), out(&x, 1), group), 2, "a member of the group");
    // A pair needs the two alone, whatever its call says.
    const Status paired = context.run({.collective = Collective::pair_average,
                                       .input = in(&x, 1),
                                       .output = out(&x, 1),
                                       .needs_all = context.rank() == 0,
                                       .peer = 1 - context.rank()});
    EXPECT_TRUE(paired.ok()) << paired.to_string();
    auto left = context.shrink();
    ASSERT_TRUE(left.ok()) << left.status().to_string();
    EXPECT_EQ((*left)->size(), 2);
    EXPECT_TRUE((*left)->allgather(in(&x, 1), out(y.data(), 2)).ok());
  });
}

// Rank 0 has ended the reduce and is in split() when rank 2 is gone; rank 1 is still in the reduce.
TEST(Healing, ASplitKeepsItsPlaceInTheOrder) {
  run_job(
      3,
      [](Context& context) {
        ASSERT_TRUE(context.barrier().ok());
        if (context.rank() == 2) return;
        const int x = 1;
        int sum = 0;
        const Status reduced = context.reduce(in(&x, 1), out(&sum, 1), 1, ReduceOp::sum);
        EXPECT_EQ(reduced.ok(), context.rank() == 0) << reduced.to_string();
        const auto half = context.split(0);
        ASSERT_TRUE(half.ok()) << half.status().to_string();
        EXPECT_EQ((*half)->size(), 2);
        const Status status = (*half)->allreduce(in(&x, 1), out(&sum, 1), ReduceOp::sum);
        EXPECT_TRUE(status.ok()) << status.to_string();
        EXPECT_EQ(sum, 2);
        const auto none = context.split(kNoColor);
        EXPECT_TRUE(none.ok() && *none == nullptr);
        EXPECT_TRUE(context.barrier().ok());
      },
      skip_config());
}

// Rank 1 goes on without rank 2 before it comes to the call that rank 0 has begun and cannot repeat.
TEST(Healing, ACallThatCannotRunAgainRunsNowhere) {
  run_job(
      3,
      [](Context& context) {
        ASSERT_TRUE(context.barrier().ok());
        if (context.rank() == 2) return;
        while (context.rank() == 1 && context.members().size() == 3)
          EXPECT_TRUE(context.has_message(0).ok());
        const ErrorFeedback feedback;
        const std::vector<float> x(100, 1);
        std::vector<float> y(x.size());
        const Status status = context.run({.collective = Collective::allreduce,
                                           .input = in(x.data(), x.size()),
                                           .output = out(y.data(), y.size()),
                                           .compression = Compression::f16,
                                           .feedback = &feedback});
        EXPECT_EQ(status.code(), Code::peer_died) << status.to_string();
        const Status last = context.barrier();
        EXPECT_TRUE(last.ok()) << last.to_string();
      },
      skip_config());
}

// A call of an operation that would run among the ranks that are left, if it did not need all.
Request needing(Collective collective, std::vector<double>& x) {
  Request request{.collective = collective, .op = ReduceOp::sum, .needs_all = true};
  if (has_root(collective)) request.root = 1;
  if (collective == Collective::barrier) return request;
  request.input = in(x.data(), x.size());
  request.output = out(x.data(), x.size());
  return request;
}

// The call that is under way when rank 3 goes, and needs it.
class NeedsAll : public testing::TestWithParam<Collective> {};

TEST_P(NeedsAll, EndsWithTheGoneRankAndTheNextCallGoesOn) {
  run_job(
      4,
      [](Context& context) {
        ASSERT_TRUE(context.set_graph(*fully_connected_graph(4)).ok());
        ASSERT_TRUE(context.barrier().ok());
        if (context.rank() == 3) return;
        std::vector<double> x(1000, context.rank());
        const std::vector<double> before = x;
        expect_gone(context.run(needing(GetParam(), x)), 3, "rank 3, which the call needs");
        EXPECT_EQ(x, before);
        for (const Collective each :
             {Collective::neighbor_allreduce, Collective::local_allreduce, Collective::broadcast,
              Collective::reduce, Collective::barrier, Collective::allreduce}) {
          Request request = needing(each, x);
          const std::string text = std::string(name(each)) + ": rank 3, which the call needs";
          expect_gone(context.run(request), 3, text);
          auto handle = context.start(request);
          ASSERT_TRUE(handle.ok()) << handle.status().to_string();
          expect_gone(handle->wait(), 3, text);
          EXPECT_EQ(x, before);
          request.needs_all = false;
          const Status status = context.run(request);
          EXPECT_TRUE(status.ok()) << status.to_string();
          if (each == Collective::allreduce) {
            EXPECT_EQ(x, std::vector<double>(x.size(), 3));
          }
          x = before;
        }
        const Status last = context.barrier();
        EXPECT_TRUE(last.ok()) << last.to_string();
      },
      skip_config());
}

INSTANTIATE_TEST_SUITE_P(Operations, NeedsAll,
                         testing::Values(Collective::neighbor_allreduce, Collective::allreduce,
                                         Collective::barrier),
                         [](const auto& info) { return std::string(name(info.param)); });

// Rank 1 comes to the call that needs all when the others have ended it with the error. It does not end by
// the rule for ranks that are behind.
TEST(Healing, ACallThatNeedsAllEndsOnRanksThatAreBehind) {
  run_job(
      3,
      [](Context& context) {
        ASSERT_TRUE(context.barrier().ok());
        if (context.rank() == 2) return;
        while (context.rank() == 1 && context.members().size() == 3)
          EXPECT_TRUE(context.has_message(0).ok());
        const double x = 5;
        double y = -1;
        const Request request{.collective = Collective::neighbor_allreduce,
                              .input = in(&x, 1),
                              .output = out(&y, 1),
                              .needs_all = true};
        expect_gone(context.run(request), 2, "needs_all");
        EXPECT_EQ(y, -1);
        EXPECT_TRUE(context.barrier().ok());
      },
      skip_config());
}

TEST(Healing, CallsInFlightBesideOneThatNeedsAll) {
  run_job(
      3,
      [](Context& context) {
        ASSERT_TRUE(context.barrier().ok());
        if (context.rank() == 2) return;
        std::vector<double> x(3, 1), y(3, -1);
        std::vector<Handle> handles;
        for (std::size_t k = 0; k < x.size(); ++k) {
          auto handle = context.start({.collective = Collective::allreduce,
                                       .input = in(&x[k], 1),
                                       .output = out(&y[k], 1),
                                       .op = ReduceOp::sum,
                                       .needs_all = k == 1});
          ASSERT_TRUE(handle.ok());
          handles.push_back(*handle);
        }
        // The first one is lost with it, and the last one runs again.
        EXPECT_EQ(handles[0].wait().code(), Code::peer_died);
        expect_gone(handles[1].wait(), 2, "needs_all");
        EXPECT_TRUE(handles[2].wait().ok());
        EXPECT_EQ(y, (std::vector<double>{-1, -1, 2}));
        EXPECT_TRUE(context.barrier().ok());
      },
      skip_config());
}

TEST(Healing, CallsInFlightEndWell) {
  run_job(
      4,
      [](Context& context) {
        ASSERT_TRUE(context.barrier().ok());
        if (context.rank() == 3) return;
        std::vector<double> x(4, 1), y(4);
        std::vector<Handle> handles;
        std::atomic<int> called = 0;
        for (std::size_t k = 0; k < x.size(); ++k) {
          auto handle = context.allreduce_start(in(&x[k], 1), out(&y[k], 1), ReduceOp::sum);
          ASSERT_TRUE(handle.ok());
          handles.push_back(*handle);
        }
        ASSERT_TRUE(
            handles[1].then([&](const Status& status) { called += status.ok() ? 1 : 10; }).ok());
        while (!handles[2].test()) {
        }
        for (Handle& handle : handles) EXPECT_TRUE(handle.wait().ok());
        EXPECT_EQ(y, std::vector<double>(4, 3));
        while (called == 0) std::this_thread::yield();
        EXPECT_EQ(called, 1);
        EXPECT_TRUE(context.barrier().ok());
      },
      skip_config());
}

TEST(Healing, InputsInPlaceAreUsedOnce) {
  run_job(
      4,
      [](Context& context) {
        constexpr std::size_t kCount = 100'000;
        Array<float> x(kCount, context.rank() == 1);
        std::fill_n(x.data(), kCount, 1.F);
        ASSERT_TRUE(context.barrier().ok());
        if (context.rank() == 3) return;
        const Status status = context.allreduce(in(x.data(), kCount), out(x.data(), kCount),
                                                ReduceOp::sum, AllreduceAlgorithm::ring);
        EXPECT_TRUE(status.ok()) << status.to_string();
        EXPECT_TRUE(holds(x.data(), kCount, 3.F));
      },
      skip_config());
}

TEST(Healing, PreparedOperationsGoOn) {
  run_job(
      3,
      [](Context& context) {
        double x = 1, y = 0;
        auto step = context.prepare({.collective = Collective::allreduce,
                                     .input = in(&x, 1),
                                     .output = out(&y, 1),
                                     .op = ReduceOp::sum});
        ASSERT_TRUE(step.ok());
        EXPECT_TRUE(step->run().ok());
        EXPECT_EQ(y, 3);
        std::vector<double> all(1, 1);
        auto whole = context.prepare(needing(Collective::allreduce, all));
        ASSERT_TRUE(whole.ok());
        EXPECT_TRUE(whole->run().ok());
        EXPECT_EQ(all[0], 3);
        if (context.rank() == 0) return;
        EXPECT_TRUE(step->run().ok());
        EXPECT_EQ(y, 2);
        EXPECT_TRUE(step->start().ok());
        EXPECT_TRUE(step->wait().ok());
        expect_gone(whole->run(), 0, "needs_all");
        EXPECT_EQ(all[0], 3);
      },
      skip_config());
}

TEST(Healing, WithoutADeathItIsAsAnyContext) {
  run_job(
      2,
      [](Context& context) {
        double x = context.rank(), y = 0;
        EXPECT_EQ(context.allreduce(in(&x, 1), out(&y, 2)).code(), Code::invalid_argument);
        EXPECT_EQ(context.allreduce_start(in(&x, 1), out(&y, 2)).status().code(),
                  Code::invalid_argument);
        EXPECT_EQ(context.set_graph(*ring_graph(3)).code(), Code::invalid_argument);
        std::vector<double> all(2);
        EXPECT_TRUE(context.allgather(in(&x, 1), out(all.data(), 2)).ok());
        EXPECT_EQ(all, (std::vector<double>{0, 1}));
        EXPECT_TRUE(context.neighbor_allreduce(in(&x, 1), out(&y, 1)).ok());
        EXPECT_EQ(y, 0.5);
      },
      skip_config());
}

}  // namespace
}  // namespace weft
