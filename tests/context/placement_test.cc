// Where ranks are, operations inside a machine, algorithms that know machines; and what is refused.
#include <atomic>
#include <cmath>

#include "tests/context/cluster.h"
#include "tests/context/outcomes.h"

namespace weft {
namespace {

// Their Statuses by rank; machines as in run_machines().
std::vector<Status> outcomes_on(const std::vector<int>& machine_of,
                                const std::function<Status(Context&)>& body) {
  std::vector<Status> statuses(machine_of.size());
  run_machines(machine_of, [&](Context& context) {
    statuses[static_cast<std::size_t>(context.rank())] = body(context);
  });
  return statuses;
}

TEST(Placement, EveryRankKnowsWhereAllAre) {
  run_machines({7, 3, 3, 7, 3}, [](Context& context) {
    const Result<Context::Placement> here = context.placement();
    ASSERT_TRUE(here.ok()) << here.status().to_string();
    EXPECT_EQ(here->layout.machine, (std::vector<int>{0, 1, 1, 0, 1}));
    EXPECT_EQ(here->layout.rails, 1);
    const int places[] = {0, 0, 1, 1, 2};
    EXPECT_EQ(context.local_rank(), places[context.rank()]);
    EXPECT_EQ(context.machine_rank(), here->layout.machine_of(context.rank()));
    EXPECT_EQ(context.local_size(), context.machine_rank() == 0 ? 2 : 3);
    EXPECT_EQ(context.machine_size(), 2);
    EXPECT_FALSE(context.is_homogeneous());
  });
}

TEST(Placement, RanksThatNameNoMachineAreOnOne) {
  run_job(3, [](Context& context) {
    EXPECT_EQ(context.local_rank(), context.rank());
    EXPECT_EQ(context.local_size(), 3);
    EXPECT_EQ(context.machine_size(), 1);
    EXPECT_TRUE(context.is_homogeneous());
  });
}

TEST(Placement, AfterASplitItIsThatOfTheRanksThere) {
  run_machines({0, 0, 1, 1, 2}, [](Context& context) {
    Result<std::unique_ptr<Context>> odd = context.split(context.rank() % 2);
    ASSERT_TRUE(odd.ok()) << odd.status().to_string();
    EXPECT_EQ((*odd)->machine_size(), context.rank() % 2 == 0 ? 3 : 2);
    EXPECT_EQ((*odd)->local_size(), 1);
    Result<std::unique_ptr<Context>> beside = context.split(context.machine_rank());
    ASSERT_TRUE(beside.ok()) << beside.status().to_string();
    EXPECT_EQ((*beside)->machine_size(), 1);
    EXPECT_EQ((*beside)->size(), context.local_size());
  });
}

TEST(LocalAllreduce, StaysInsideTheMachine) {
  run_machines({0, 1, 2, 2, 1, 2}, [](Context& context) {
    const double ranks_there[] = {1, 2, 3};
    const std::int64_t sums[] = {0, 1 + 4, 2 + 3 + 5};
    const auto own = static_cast<std::size_t>(context.machine_rank());
    for (const std::size_t count : {0UL, 1UL, 1000UL, 70'003UL}) {
      Array<std::int64_t> x(count, false), y(count, true);
      Array<double> z(count, false);
      for (std::size_t i = 0; i < count; ++i) {
        x[i] = context.rank() * static_cast<std::int64_t>(i);
        z[i] = static_cast<double>(context.rank()) * static_cast<double>(i);
      }
      const Status sum =
          context.local_allreduce(in(x.data(), count), out(y.data(), count), ReduceOp::sum);
      ASSERT_TRUE(sum.ok()) << sum.to_string();
      ASSERT_TRUE(context.local_allreduce(in(z.data(), count), out(z.data(), count)).ok());
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(y[i], sums[own] * static_cast<std::int64_t>(i));
        ASSERT_NEAR(z[i], static_cast<double>(y[i]) / ranks_there[own], 1e-9);
      }
    }
    EXPECT_EQ(context.usage().network_bytes, 0U);
  });
}

// Nobody waits for a machine that is late.
TEST(LocalAllreduce, MachinesDoNotWaitForEachOther) {
  std::atomic<int> done{0};
  run_machines({0, 0, 1, 1}, [&](Context& context) {
    float x = 1, y = 0;
    if (context.machine_rank() == 1) {
      for (const Deadline patience = Deadline::after_ms(10'000); done != 2 && !patience.passed();)
        std::this_thread::yield();
      EXPECT_EQ(done, 2);
    }
    ASSERT_TRUE(context.local_allreduce(in(&x, 1), out(&y, 1), ReduceOp::sum).ok());
    EXPECT_EQ(y, 2.0F);
    ++done;
  });
}

TEST(AllreduceOverMachines, EveryAlgorithm) {
  run_machines({0, 1, 0, 1}, [](Context& context) {
    for (const auto algorithm :
         {AllreduceAlgorithm::automatic, AllreduceAlgorithm::direct, AllreduceAlgorithm::split,
          AllreduceAlgorithm::ring, AllreduceAlgorithm::halving_doubling, AllreduceAlgorithm::bcube,
          AllreduceAlgorithm::torus, AllreduceAlgorithm::multi_ring,
          AllreduceAlgorithm::hierarchical}) {
      for (const std::size_t count : {0UL, 1UL, 77UL, 100'001UL, 600'000UL}) {
        for (const bool in_place : {false, true}) {
          Array<double> x(count, false), y(count, in_place);
          for (std::size_t i = 0; i < count; ++i)
            x[i] = static_cast<double>(context.rank()) + static_cast<double>(i);
          double* to = in_place ? x.data() : y.data();
          const Status status =
              context.allreduce(in(x.data(), count), out(to, count), ReduceOp::average, algorithm);
          ASSERT_TRUE(status.ok()) << name(algorithm) << ": " << status.to_string();
          ASSERT_TRUE(holds(to, count, [&](std::size_t i) { return 1.5 + static_cast<double>(i); }))
              << name(algorithm);
        }
      }
    }
  });
}

TEST(AllreduceOverMachines, WhatDoesNotFitIsRefused) {
  run_job(3, [](Context& context) {
    float x = 1, y = 0;
    const Status status =
        context.allreduce(in(&x, 1), out(&y, 1), ReduceOp::sum, AllreduceAlgorithm::bcube);
    expect_names(status, Code::invalid_argument, {"bcube"});
    EXPECT_TRUE(context.allreduce(in(&x, 1), out(&y, 1), ReduceOp::sum).ok()) << "refused for good";
  });
}

TEST(AllreduceByNccl, NeedsTheDriverOfGpus) {
  run_job(2, [](Context& context) {
    float x = 1, y = 0;
    const Status status =
        context.allreduce(in(&x, 1), out(&y, 1), ReduceOp::sum, AllreduceAlgorithm::nccl);
    expect_names(status, Code::unavailable, {"allreduce by nccl", "driver was not loaded"});
    EXPECT_TRUE(context.allreduce(in(&x, 1), out(&y, 1), ReduceOp::sum).ok()) << "refused for good";
  });
}

TEST(HierarchicalErrors, AreToldBeforeAnythingMoves) {
  run_machines({0, 0, 1, 1}, [](Context& context) {
    float x = 1, y = 0;
    const auto call = [&](const NeighborWeights& weights) {
      return context.hierarchical_neighbor_allreduce(in(&x, 1), out(&y, 1), weights);
    };
    const int own = context.machine_rank(), other = 1 - own;
    const auto expect = [&](const Status& status, std::initializer_list<const char*> words) {
      expect_names(status, Code::invalid_argument, words);
    };
    using List = std::vector<NeighborWeight>;
    expect(call({}), {"no graph of machines", "set_machine_graph"});
    expect(context.set_machine_graph(*exponential_graph(4)),
           {"4 machines", "machine1 (ranks 2-3)"});
    const List there{{other, 1}}, self{{own, 1}}, outside{{2, 1}}, twice{{other, 1}, {other, 1}};
    const List infinite{{other, HUGE_VAL}};
    expect(call({std::nullopt, there, there, false}), {"self_weight"});
    expect(call({1, self, there, false}), {"src_weights", "another of the machines 0…1"});
    expect(call({1, there, outside, false}), {"dst_weights", "machine 2"});
    expect(call({1, twice, there, false}), {"twice"});
    expect(call({1, there, infinite, false}), {"dst_weights", "inf"});
    expect(call({NAN, there, there, false}), {"self_weight", "nan"});
    ASSERT_TRUE(
        context.set_machine_graph(*Graph::from_edges(2, {{0, 1, 0.5}}, {1, 0.5}, "one")).ok());
    if (own == 0) expect(call({1, there, std::nullopt, false}), {"src_weights", "machine 1"});
    if (own == 1) expect(call({1, std::nullopt, there, false}), {"dst_weights", "machine 0"});
    expect(call({0.5, std::nullopt, own == 0 ? there : List(), true}), {"sum to", "machine"});
    std::int32_t whole = 1;
    expect(context.hierarchical_neighbor_allreduce(in(&whole, 1), out(&whole, 1)), {"i32"});
    expect(context.hierarchical_neighbor_allreduce(in(&x, 1), {}), {"output"});
    EXPECT_TRUE(call({}).ok()) << "refused for good";
  });
}

// Machine 0 believes in an edge that machine 1 has not.
TEST(HierarchicalErrors, GraphsThatDifferAreFoundOnBothSides) {
  const std::vector<Status> statuses = outcomes_on({0, 0, 1, 1}, [](Context& context) {
    const Graph graph = context.machine_rank() == 0 ? *fully_connected_graph(2)
                                                    : *Graph::from_edges(2, {}, {1, 1}, "apart");
    EXPECT_TRUE(context.set_machine_graph(graph).ok());
    Array<float> x(1000, false), y(1000, false);
    const Status first =
        context.hierarchical_neighbor_allreduce(in(x.data(), 1000), out(y.data(), 1000));
    // The side without the edge may have ended before it was asked.
    return first.ok() ? context.barrier() : first;
  });
  for (const Status& status : statuses) {
    expect_names(status, Code::mismatch, {"hierarchical_neighbor_allreduce"});
  }
}

TEST(HierarchicalErrors, SizesThatDifferAreFoundOnBothSides) {
  const std::vector<Status> statuses = outcomes_on({0, 0, 1, 1}, [](Context& context) {
    EXPECT_TRUE(context.set_machine_graph(*fully_connected_graph(2)).ok());
    const std::size_t count = context.machine_rank() == 0 ? 1000 : 1500;
    Array<float> x(count, false), y(count, false);
    return context.hierarchical_neighbor_allreduce(in(x.data(), count), out(y.data(), count));
  });
  for (const Status& status : statuses) EXPECT_EQ(status.code(), Code::mismatch);
}

}  // namespace
}  // namespace weft
