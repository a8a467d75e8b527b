// hierarchical_neighbor_allreduce: several machines in one process, against double precision.
#include <array>
#include <cmath>
#include <map>
#include <mutex>

#include "tests/context/cluster.h"
#include "tests/context/elements.h"

namespace weft {
namespace {

constexpr DataType kFloating[] = {DataType::f16, DataType::bf16, DataType::f32, DataType::f64};

// By rank: two machines of two, out of order; of one, two and three; one; of one each.
const std::vector<std::vector<int>> kLayouts = {
    {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 2, 2, 1, 2}, {0, 0, 0}, {0, 1, 2}};

// Multiples of 1/8 below 4: exact in every type; the same again after kPeriod elements.
constexpr std::size_t kPeriod = 31;
double value_of(Rank rank, std::size_t i) {
  return static_cast<double>((static_cast<std::size_t>(rank) * 5 + i * 3) % kPeriod) / 8;
}

double mean_of(const Layout& layout, int machine, std::size_t i) {
  double sum = 0, ranks = 0;
  for (Rank rank = 0; rank < static_cast<Rank>(layout.machine.size()); ++rank) {
    if (layout.machine_of(rank) != machine) continue;
    sum += value_of(rank, i);
    ++ranks;
  }
  return sum / ranks;
}

// What the machines' ranks wrote: of each machine all the same bits.
class Bits {
 public:
  void expect_same(int machine, const std::string& what, const std::string& bits) {
    const std::lock_guard lock(mutex_);
    const auto known = seen_.emplace(std::pair(machine, what), bits).first;
    EXPECT_TRUE(known->second == bits) << what << " on machine " << machine;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, std::string>, std::string> seen_;
};

struct Case {
  DataType type = DataType::f32;
  std::size_t count = 0;
  bool in_place = false;
  bool foreign = false;
  NeighborWeights weights = {};
};

// Calls and compares with the sum of `terms`: machines and the weights with which they count.
void expect_sum(Context& context, const Case& asked, const std::vector<Peer>& terms, Bits& bits) {
  const Layout layout = context.placement()->layout;
  std::array<double, kPeriod> own{}, expected{};
  for (std::size_t i = 0; i < kPeriod; ++i) {
    own[i] = value_of(context.rank(), i);
    for (const Peer& term : terms) expected[i] += term.weight * mean_of(layout, term.rank, i);
  }
  Elements x(asked.type, asked.count, asked.foreign), y(asked.type, asked.count, asked.foreign);
  for (std::size_t i = 0; i < asked.count; ++i) x.put(i, own[i % kPeriod]);
  Elements& to = asked.in_place ? x : y;
  const Status status =
      context.hierarchical_neighbor_allreduce(x.input(), to.output(), asked.weights);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const auto tolerance = x.spacing() * 4 * static_cast<double>(context.size() + 2);
  for (std::size_t i = 0; i < asked.count; ++i) {
    const double error = std::abs(to.get(i) - expected[i % kPeriod]);
    const bool is_kept = asked.in_place || x.get(i) == own[i % kPeriod];
    if (error <= tolerance && is_kept)
      continue;  // a million checks by GoogleTest's macros take seconds
    FAIL() << i << " of " << asked.count << " " << name(asked.type) << " on rank " << context.rank()
           << ": " << to.get(i) << ", not " << expected[i % kPeriod]
           << (is_kept ? "" : ", and the input changed");
  }
  bits.expect_same(layout.machine_of(context.rank()),
                   std::string(name(asked.type)) + std::to_string(asked.count), to.bits());
}

std::vector<Peer> uniform_terms(const Graph& machines, int own) {
  const auto in = machines.in_edges(own);
  std::vector<Peer> terms{{own, 0}};
  terms.insert(terms.end(), in.begin(), in.end());
  for (Peer& term : terms) term.weight = 1.0 / static_cast<double>(terms.size());
  return terms;
}

TEST(Hierarchical, EveryTypeSizeAndLayout) {
  for (const std::vector<int>& machine_of : kLayouts) {
    Bits bits;
    run_machines(machine_of, [&](Context& context) {
      const Graph machines = *exponential_graph(context.machine_size());
      ASSERT_TRUE(context.set_machine_graph(machines).ok());
      const std::vector<Peer> terms = uniform_terms(machines, context.machine_rank());
      for (const DataType type : kFloating) {
        for (const std::size_t count : {0UL, 1UL, 7UL, 1000UL, 70'003UL}) {
          for (const bool in_place : {false, true})
            expect_sum(context, {type, count, in_place, in_place}, terms, bits);
        }
      }
      expect_sum(context, {DataType::f32, 700'003}, terms, bits);
    });
  }
}

TEST(Hierarchical, WeightsOfTheGraph) {
  const Graph ring =
      *Graph::from_edges(3, {{0, 1, 0.25}, {1, 2, 0.5}, {2, 0, 2.0}}, {0.75, 0.5, -1.0}, "three");
  Bits bits;
  run_machines({0, 1, 2, 2, 1, 2}, [&](Context& context) {
    ASSERT_TRUE(context.set_machine_graph(ring, true).ok());
    const int own = context.machine_rank();
    const LocalView view = ring.local_view(own);
    std::vector<Peer> terms = view.in;
    terms.push_back({own, view.self_weight});
    expect_sum(context, {DataType::f64, 5000}, terms, bits);
    EXPECT_EQ(*context.machine_graph(), ring);
  });
}

// Other machines and weights in every step, none of them in the graph of machines; plans are made
// once for each set of machines.
TEST(Hierarchical, WeightsThatChangeEveryStep) {
  Bits bits[12];
  run_machines({0, 0, 1, 2, 2, 3}, [&](Context& context) {
    std::size_t plans = 0;
    for (int step = 0; step < 12; ++step) {
      const int own = context.machine_rank(), machines = context.machine_size();
      const int hop = 1 + step % 3;
      const std::vector<NeighborWeight> sources{{(own - hop + machines) % machines, 0.5 + step}};
      const std::vector<NeighborWeight> destinations{{(own + hop) % machines, 0.25}};
      const Case asked{DataType::f64, 3000, false, false, {0.5, sources, destinations, false}};
      expect_sum(context, asked, {{own, 0.5}, {sources[0].rank, 0.25 * sources[0].weight}},
                 bits[step]);
      if (step == 2) plans = context.usage().plans_cached;
    }
    EXPECT_EQ(context.usage().plans_cached, plans);
  });
}

TEST(Hierarchical, PullUsesSomeOfTheNeighbors) {
  Bits bits;
  run_machines({0, 0, 1, 2, 1}, [&](Context& context) {
    ASSERT_TRUE(context.set_machine_graph(*fully_connected_graph(3)).ok());
    const int own = context.machine_rank();
    const std::vector<NeighborWeight> sources{{(own + 1) % 3, 0.25}};
    const Case asked{DataType::f64, 3000, false, false, {0.75, sources, std::nullopt, false}};
    expect_sum(context, asked, {{own, 0.75}, {sources[0].rank, 0.25}}, bits);
  });
}

// Who pushes is known to the senders alone: machine 0 to both others, machine 1 to 2, 2 to none.
TEST(Hierarchical, PushIsWeightedByItsSenders) {
  Bits bits;
  run_machines({0, 0, 1, 2, 1}, [&](Context& context) {
    ASSERT_TRUE(context.set_machine_graph(*fully_connected_graph(3)).ok());
    const int own = context.machine_rank();
    std::vector<NeighborWeight> destinations;
    std::vector<Peer> terms{{own, 0.5}};
    for (int other = 0; other < 3; ++other) {
      if (other > own) destinations.push_back({other, 0.5 / (2 - own)});
      if (other < own) terms.push_back({other, 0.5 / (2 - other)});
    }
    if (destinations.empty()) terms[0].weight = 1;
    const Case asked{
        DataType::f64, 3000, false, false, {terms[0].weight, std::nullopt, destinations, true}};
    expect_sum(context, asked, terms, bits);
  });
}

// What the ranks of a machine give to others is one tensor for each neighbor machine.
TEST(Hierarchical, OneTensorTravelsPerNeighborMachineAndDirection) {
  constexpr std::size_t kCount = 100'003;
  for (const std::vector<int>& machine_of : kLayouts) {
    std::mutex mutex;
    std::map<int, std::uint64_t> sent;
    run_machines(machine_of, [&](Context& context) {
      const Graph machines = *exponential_graph(context.machine_size());
      ASSERT_TRUE(context.set_machine_graph(machines).ok());
      Array<float> x(kCount, false), y(kCount, false);
      ASSERT_TRUE(
          context.hierarchical_neighbor_allreduce(in(x.data(), kCount), out(y.data(), kCount))
              .ok());
      const std::lock_guard lock(mutex);
      sent[context.machine_rank()] += context.usage().network_bytes;
    });
    const Graph machines = *exponential_graph(static_cast<int>(sent.size()));
    for (const auto& [machine, bytes] : sent) {
      EXPECT_EQ(bytes, machines.out_edges(machine).size() * kCount * sizeof(float))
          << "machine " << machine << " of " << sent.size();
    }
  }
}

TEST(Hierarchical, ManyInFlight) {
  run_machines({0, 0, 1, 1}, [](Context& context) {
    constexpr std::size_t kOperations = 60, kCount = 2048;
    ASSERT_TRUE(context.set_machine_graph(*exponential_graph(2)).ok());
    Array<double> x(kCount, false), y(kOperations * kCount, false);
    for (std::size_t i = 0; i < kCount; ++i) x[i] = value_of(context.rank(), i);
    std::vector<Handle> handles;
    for (std::size_t k = 0; k < kOperations; ++k) {
      Result<Handle> handle = context.hierarchical_neighbor_allreduce_start(
          in(x.data(), kCount), out(y.data() + k * kCount, kCount));
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      handles.push_back(*handle);
      // Those that were started keep the graph that they were started with.
      ASSERT_TRUE(context.set_machine_graph(*fully_connected_graph(2)).ok());
    }
    for (Handle& handle : handles) ASSERT_TRUE(handle.wait().ok());
    for (std::size_t k = 0; k < kOperations; ++k) {
      for (std::size_t i = 0; i < kCount; ++i) {
        const double mean = (value_of(0, i) + value_of(1, i) + value_of(2, i) + value_of(3, i)) / 4;
        ASSERT_NEAR(y[k * kCount + i], mean, 1e-12);
      }
    }
  });
}

TEST(Hierarchical, ExplainSaysWhereRanksAre) {
  run_machines({0, 0, 1, 1}, [](Context& context) {
    ASSERT_TRUE(context.set_machine_graph(*exponential_graph(2)).ok());
    float x = 1;
    ASSERT_TRUE(context.hierarchical_neighbor_allreduce(in(&x, 1), out(&x, 1)).ok());
    const std::string text = context.explain();
    EXPECT_NE(text.find("2 machines, 1 rail: machine0 (ranks 0-1), machine1 (ranks 2-3)"),
              std::string::npos)
        << text;
  });
}

}  // namespace
}  // namespace weft
