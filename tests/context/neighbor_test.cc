// neighbor_allreduce and neighbor_allgather against their definitions, ranks as threads.
#include <cmath>
#include <cstring>

#include "tests/context/job.h"

namespace weft {
namespace {

// From -1 to 1, without order.
double element(Rank rank, std::size_t i) {
  const std::uint64_t mixed = (static_cast<std::uint64_t>(rank) * 997 + i) * 0x9E3779B97F4A7C15;
  return static_cast<double>(mixed >> 40) / 0x1p23 - 1.0;
}

void fill(Array<float>& x, Rank rank) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(element(rank, i));
}

double expected(const Graph& graph, Rank rank, std::size_t i) {
  double sum = graph.self_weight(rank) * static_cast<float>(element(rank, i));
  for (const Peer& peer : graph.in_edges(rank))
    sum += peer.weight * static_cast<float>(element(peer.rank, i));
  return sum;
}

struct Case {
  const char* graph;
  int ranks;
  std::size_t count;
  bool foreign;
  bool in_place;
};

class NeighborAllreduce : public ::testing::TestWithParam<Case> {};

TEST_P(NeighborAllreduce, GivesTheWeightedSum) {
  const Case& c = GetParam();
  const Graph graph = *make_graph(c.graph, c.ranks);
  run_job(c.ranks, [&](Context& context) {
    ASSERT_TRUE(context.set_graph(graph, true).ok());
    Array<float> x(c.count, c.foreign);
    Array<float> y(c.count, c.foreign);
    Array<float> given(c.count, true);
    fill(given, context.rank());
    for (int round = 0; round < 20; ++round) {
      if (c.count > 0) std::memcpy(x.data(), given.data(), c.count * sizeof(float));
      float* result = c.in_place ? x.data() : y.data();
      const Status status = context.neighbor_allreduce(in(x.data(), c.count), out(result, c.count));
      ASSERT_TRUE(status.ok()) << status.to_string();
      for (std::size_t i = 0; i < c.count; i += 1 + c.count / 1000) {
        ASSERT_NEAR(result[i], expected(graph, context.rank(), i), 1e-5)
            << "rank " << context.rank() << " element " << i;
      }
      if (!c.in_place && c.count > 0) {
        ASSERT_EQ(x[c.count - 1], static_cast<float>(element(context.rank(), c.count - 1)));
      }
    }
  });
}

// By every operation that averages, and every plan; 3 and 5 have no exact reciprocal. The sums of
// these numbers are exact.
TEST(Means, OfEqualNumbersAreThatNumber) {
  for (const int ranks : {3, 5}) {
    run_job(ranks, [&](Context& context) {
      const auto n = static_cast<std::size_t>(context.size());
      for (const std::size_t count : {15UL, 1500UL, 150'000UL}) {
        Array<float> x(count, true), y(count, true);
        for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i % 1000) - 500;
        const auto is_mean = [&](const Status& status, std::size_t from, std::size_t most) {
          EXPECT_TRUE(status.ok()) << status.to_string();
          EXPECT_TRUE(holds(y.data(), most, [&](std::size_t i) { return x[from + i]; }))
              << ranks << " ranks";
          for (std::size_t i = 0; i < count; ++i) y[i] = -1;
        };
        const Input from = in(x.data(), count);
        const Output to = out(y.data(), count);
        for (const auto algorithm :
             {AllreduceAlgorithm::automatic, AllreduceAlgorithm::direct, AllreduceAlgorithm::split,
              AllreduceAlgorithm::ring, AllreduceAlgorithm::halving_doubling})
          is_mean(context.allreduce(from, to, ReduceOp::average, algorithm), 0, count);
        is_mean(context.neighbor_allreduce(from, to), 0, count);
        const Rank others[] = {0, 1, 2};
        if (context.rank() < 3) is_mean(context.group_average(from, to, others), 0, count);
        is_mean(context.reduce(from, to, 1), 0, context.rank() == 1 ? count : 0);
        const std::size_t part = count / n;
        is_mean(context.reduce_scatter(from, out(y.data(), part)),
                part * static_cast<std::size_t>(context.rank()), part);
        Result<Window> window = context.win_create(out(x.data(), count), "mean");
        ASSERT_TRUE(window.ok());
        is_mean(window->update({.clone = to}), 0, count);
        ASSERT_TRUE(context.win_free("mean").ok());
      }
    });
  }
}

// Decentralized SGD whose weights are 1/n is allreduce SGD (SGP, section 2): the same bits, whatever the numbers.
TEST(Means, OverAFullyConnectedGraphAreThoseOfAnAllreduce) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    run_job(ranks, [&](Context& context) {
      ASSERT_TRUE(context.set_graph(*fully_connected_graph(context.size())).ok());
      for (const std::size_t count : {15UL, 30'011UL}) {
        Array<float> x(count, true), y(count, true), mean(count, true);
        for (std::size_t i = 0; i < count; ++i)
          x[i] = std::sin(static_cast<float>(i + 1) * static_cast<float>(context.rank() + 3));
        ASSERT_TRUE(context.neighbor_allreduce(in(x.data(), count), out(y.data(), count)).ok());
        for (const auto algorithm : {AllreduceAlgorithm::direct, AllreduceAlgorithm::split}) {
          ASSERT_TRUE(context
                          .allreduce(in(x.data(), count), out(mean.data(), count),
                                     ReduceOp::average, algorithm)
                          .ok());
          EXPECT_EQ(std::memcmp(y.data(), mean.data(), count * sizeof(float)), 0)
              << ranks << " ranks, " << name(algorithm);
        }
      }
    });
  }
}

// What was started keeps its peers, although the next graph has more.
TEST(Graphs, ChangeBetweenOperationsInFlight) {
  run_job(8, [](Context& context) {
    const Graph graphs[] = {*ring_graph(8), *fully_connected_graph(8)};
    constexpr std::size_t kCount = 100'000;
    Array<float> x(kCount, false), first(kCount, false), second(kCount, false);
    fill(x, context.rank());
    std::vector<Handle> handles;
    for (int k = 0; k < 2; ++k) {
      ASSERT_TRUE(context.set_graph(graphs[k], true).ok());
      Result<Handle> handle = context.neighbor_allreduce_start(
          in(x.data(), kCount), out((k == 0 ? first : second).data(), kCount));
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      handles.push_back(*handle);
    }
    for (Handle& handle : handles) ASSERT_TRUE(handle.wait().ok());
    for (std::size_t i = 0; i < kCount; i += 97) {
      ASSERT_NEAR(first[i], expected(graphs[0], context.rank(), i), 1e-5);
      ASSERT_NEAR(second[i], expected(graphs[1], context.rank(), i), 1e-5);
    }
  });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* graph : {"exponential", "ring", "ring:style=1", "star", "fully_connected"}) {
    for (const int ranks : {1, 2, 4, 5}) {
      for (const std::size_t count : {0UL, 1UL, 3UL, 1000UL, 1009UL, 100'000UL, 400'001UL}) {
        for (const bool foreign : {false, true})
          all.push_back({graph, ranks, count, foreign, false});
        all.push_back({graph, ranks, count, false, true});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, NeighborAllreduce, ::testing::ValuesIn(cases()),
                         [](const auto& param_info) {
                           std::string name = std::string(param_info.param.graph) + "_" +
                                              std::to_string(param_info.param.ranks) + "_" +
                                              std::to_string(param_info.param.count) +
                                              (param_info.param.foreign ? "_foreign" : "") +
                                              (param_info.param.in_place ? "_inplace" : "");
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace weft
