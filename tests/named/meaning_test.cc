// Operations by name: every rank submits in an order of its own, and gets what the ordered operation
// gives, bit by bit.
#include <algorithm>
#include <numeric>
#include <random>

#include "engine/named/buffers.h"
#include "tests/context/outcomes.h"
#include "tests/window/window_job.h"

namespace weft {
namespace {

class NamedMeaning : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, NamedMeaning, kBothWays, name_of);

// Tensors of several sizes, filled from the rank, the tensor and the round.
struct Tensors {
  Tensors(std::size_t many, Rank rank, int round = 0) {
    for (std::size_t t = 0; t < many; ++t) {
      std::mt19937_64 random(t * 1000 + static_cast<std::size_t>(rank) * 10 +
                             static_cast<std::size_t>(round));
      const std::size_t count = sizes[t % std::size(sizes)];
      x.emplace_back(count);
      for (float& each : x.back())
        each = static_cast<float>(std::uniform_real_distribution<>(-1, 1)(random));
      y.emplace_back(count);
    }
  }
  static constexpr std::size_t sizes[] = {1, 17, 1024, 300, 0, 4096, 70'000, 5};
  std::vector<std::vector<float>> x, y;
};

std::vector<std::size_t> order_of(std::size_t many, Rank rank, int round) {
  std::vector<std::size_t> order(many);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(static_cast<std::size_t>(rank) * 77 + static_cast<std::size_t>(round));
  std::ranges::shuffle(order, random);
  return order;
}

std::string name_at(std::size_t tensor) {
  return "layer" + std::to_string(tensor);
}

constexpr std::size_t kMany = 24;

TEST_P(NamedMeaning, AllreducesInAnyOrderAreTheOrderedOnes) {
  run(4, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok()) << named.status().to_string();
    for (int round = 0; round < 4; ++round) {
      Tensors tensors(kMany, context.rank(), round);
      std::vector<Handle> handles;
      for (const std::size_t t : order_of(kMany, context.rank(), round)) {
        const auto& x = tensors.x[t];
        Result<Handle> handle = named->allreduce_start(
            name_at(t), in(x.data(), x.size()), out(tensors.y[t].data(), x.size()), ReduceOp::max);
        ASSERT_TRUE(handle.ok()) << handle.status().to_string();
        handles.push_back(*handle);
      }
      for (Handle& handle : handles) expect_ok(handle.wait());
      for (std::size_t t = 0; t < kMany; ++t) {
        std::vector<float> expected(tensors.x[t].size());
        expect_ok(context.allreduce(in(tensors.x[t].data(), expected.size()),
                                    out(expected.data(), expected.size()), ReduceOp::max));
        EXPECT_EQ(tensors.y[t], expected) << t;
      }
    }
    const Named::Usage usage = named->usage().value();
    EXPECT_EQ(usage.submitted, 4 * kMany);
    EXPECT_GT(usage.cache_hits, 0U);
    EXPECT_EQ(usage.pending, 0U);
    expect_ok(named->end());
  });
}

TEST_P(NamedMeaning, NeighborAllreducesInAnyOrderHaveTheBitsOfTheOrderedOnes) {
  run(4, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    for (int round = 0; round < 4; ++round) {
      Tensors tensors(kMany, context.rank(), round);
      std::vector<Handle> handles;
      for (const std::size_t t : order_of(kMany, context.rank(), round)) {
        const auto& x = tensors.x[t];
        Result<Handle> handle = named->neighbor_allreduce_start(name_at(t), in(x.data(), x.size()),
                                                                out(tensors.y[t].data(), x.size()));
        ASSERT_TRUE(handle.ok()) << handle.status().to_string();
        handles.push_back(*handle);
      }
      for (Handle& handle : handles) expect_ok(handle.wait());
      for (std::size_t t = 0; t < kMany; ++t) {
        std::vector<float> expected(tensors.x[t].size());
        expect_ok(context.neighbor_allreduce(in(tensors.x[t].data(), expected.size()),
                                             out(expected.data(), expected.size())));
        EXPECT_EQ(tensors.y[t], expected) << t;
      }
    }
    expect_ok(named->end());
  });
}

TEST_P(NamedMeaning, CompressedNeighborAllreducesHaveTheBitsOfTheOrderedOnes) {
  run(4, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    const Rank left = (context.rank() + 3) % 4;
    const NeighborWeight pulled[] = {{left, 0.25}};
    const NeighborWeights pull{.self = 0.5, .sources = pulled, .destinations = std::nullopt};
    int round = 0;
    for (const Compression each :
         {Compression::f16, Compression::bf16, Compression::sketch, Compression::e4m3}) {
      Tensors tensors(kMany, context.rank(), ++round);
      const auto request = [&](std::size_t t, std::vector<float>& y) {
        return Request{.collective = Collective::neighbor_allreduce,
                       .input = in(tensors.x[t].data(), y.size()),
                       .output = out(y.data(), y.size()),
                       .compression = each,
                       .weights = t % 2 == 0 ? nullptr : &pull};
      };
      std::vector<Handle> handles;
      for (const std::size_t t : order_of(kMany, context.rank(), round)) {
        Result<Handle> handle = named->start(name_at(t), request(t, tensors.y[t]));
        ASSERT_TRUE(handle.ok()) << handle.status().to_string();
        handles.push_back(*handle);
      }
      for (Handle& handle : handles) expect_ok(handle.wait());
      for (std::size_t t = 0; t < kMany; ++t) {
        std::vector<float> expected(tensors.x[t].size());
        expect_ok(context.run(request(t, expected)));
        EXPECT_EQ(tensors.y[t], expected) << name(each) << ", " << t;
        expect_ok(named->run("in place", request(t, tensors.x[t])));
        EXPECT_EQ(tensors.x[t], expected) << name(each) << ", " << t;
      }
    }
    expect_ok(named->end());
  });
}

// Memory that neighbors read in place, alone and as the result's place.
TEST_P(NamedMeaning, NeighborAllreducesOfWeftMemoryAndInPlace) {
  run(4, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    constexpr std::size_t kLarge = 300'000;
    Array<double> x(kLarge, false), y(kLarge, false), expected(kLarge, false);
    for (int round = 0; round < 6; ++round) {
      const std::size_t count = round % 2 == 0 ? kLarge : 100;
      for (std::size_t i = 0; i < count; ++i)
        x[i] = context.rank() + round + static_cast<double>(i);
      expect_ok(context.neighbor_allreduce(in(x.data(), count), out(expected.data(), count)));
      expect_ok(named->neighbor_allreduce("x", in(x.data(), count), out(y.data(), count)));
      EXPECT_TRUE(std::equal(y.data(), y.data() + count, expected.data()));
      expect_ok(named->neighbor_allreduce("x", in(x.data(), count), out(x.data(), count)));
      EXPECT_TRUE(std::equal(x.data(), x.data() + count, expected.data()));
    }
    expect_ok(named->end());
  });
}

#ifdef HAS_UCX
TEST(NamedOnMachines, HierarchicalExchangesAreTheOrderedOnes) {
  run_cluster(4, 2, [](Context& context) {
    expect_ok(context.set_machine_graph(*fully_connected_graph(2)));
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok()) << named.status().to_string();
    std::vector<double> x(5000, 1.0 + context.rank()), y(5000), expected(5000);
    for (int round = 0; round < 2; ++round) {
      expect_ok(context.hierarchical_neighbor_allreduce(in(x.data(), x.size()),
                                                        out(expected.data(), x.size())));
      expect_ok(named->run("h", {.collective = Collective::hierarchical_neighbor_allreduce,
                                 .input = in(x.data(), x.size()),
                                 .output = out(y.data(), x.size())}));
      EXPECT_EQ(y, expected);
    }
    expect_ok(named->end());
  });
}

// Names without weights travel together, and so does a group whose tensors have the same ones.
TEST(NamedOnMachines, HierarchicalExchangesAreFused) {
  run_cluster(4, 2, [](Context& context) {
    expect_ok(context.set_machine_graph(*fully_connected_graph(2)));
    Result<Named> named = context.named({.gather_us = 20'000});
    ASSERT_TRUE(named.ok()) << named.status().to_string();
    constexpr std::size_t kTensors = 6;
    const NeighborWeight from[] = {{1 - context.machine_rank(), 0.25}};
    const NeighborWeight to[] = {{from[0].rank, 1.0}};
    const NeighborWeights weights{.self = 0.5, .sources = from, .destinations = to};
    std::vector<std::vector<double>> x, y(kTensors), expected(kTensors);
    std::vector<Request> requests;
    for (std::size_t t = 0; t < kTensors; ++t) {
      x.emplace_back(10 + 7 * t, 1.0 + context.rank() + static_cast<double>(t));
      y[t].resize(x[t].size());
      expected[t].resize(x[t].size());
      requests.push_back({.collective = Collective::hierarchical_neighbor_allreduce,
                          .input = in(x[t].data(), x[t].size()),
                          .output = out(y[t].data(), y[t].size())});
    }
    for (const bool is_weighted : {false, true}) {
      for (std::size_t t = 0; t < kTensors; ++t) {
        requests[t].weights = is_weighted ? &weights : nullptr;
        expect_ok(context.hierarchical_neighbor_allreduce(
            requests[t].input, out(expected[t].data(), expected[t].size()),
            is_weighted ? weights : NeighborWeights()));
      }
      const std::uint64_t batches = named->usage()->batches;
      std::vector<Handle> handles;
      if (is_weighted) {
        handles.push_back(named->start_group("all", requests).value());
      } else {
        for (std::size_t t = 0; t < kTensors; ++t)
          handles.push_back(named->start("t" + std::to_string(t), requests[t]).value());
      }
      for (Handle& handle : handles) expect_ok(handle.wait());
      EXPECT_EQ(y, expected);
      EXPECT_LT(named->usage()->batches - batches, kTensors);
    }
    expect_ok(named->end());
  });
}

#endif

// SGP's graph: at each step other peers, which only the sender knows.
TEST_P(NamedMeaning, PeersThatChangeAtEveryStep) {
  run(4, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    const Rank rank = context.rank();
    for (int step = 0; step < 8; ++step) {
      const int hop = step % 2 == 0 ? 1 : 2;
      const NeighborWeight to[] = {{(rank + hop) % 4, 0.5}};
      double x = rank + step;
      double y = 0;
      expect_ok(named->neighbor_allreduce("x", in(&x, 1), out(&y, 1),
                                          {.self = 0.5, .sources = {}, .destinations = to}));
      EXPECT_EQ(y, (rank + step + (rank + 4 - hop) % 4 + step) / 2.0);
      const NeighborWeight from[] = {{(rank + 4 - hop) % 4, 0.25}};
      expect_ok(named->neighbor_allreduce("x", in(&x, 1), out(&y, 1),
                                          {.self = 1, .sources = from, .destinations = to}));
      EXPECT_EQ(y, rank + step + ((rank + 4 - hop) % 4 + step) / 8.0);
    }
    expect_ok(named->end());
  });
}

// Ranks 0 and 1 go on while rank 2 and 3 have not submitted anything.
TEST_P(NamedMeaning, NeighborsWaitOnlyForNeighbors) {
  run(4, [](Context& context) {
    ASSERT_TRUE(context.set_graph(*ring_graph(4, RingStyle::both)).ok());
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    const Rank rank = context.rank();
    double x = rank;
    double y = 0;
    const Rank peer = rank ^ 1;
    if (rank < 2) {
      expect_ok(named->run("pair", {.collective = Collective::pair_average,
                                    .input = in(&x, 1),
                                    .output = out(&y, 1),
                                    .peer = peer}));
      EXPECT_EQ(y, 0.5);
    }
    expect_ok(context.barrier());
    if (rank >= 2) {
      expect_ok(named->run("pair", {.collective = Collective::pair_average,
                                    .input = in(&x, 1),
                                    .output = out(&y, 1),
                                    .peer = peer}));
      EXPECT_EQ(y, 2.5);
    }
    expect_ok(named->end());
  });
}

TEST_P(NamedMeaning, EveryOperationOfAllRanks) {
  run(3, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    const Rank rank = context.rank();
    for (int round = 0; round < 2; ++round) {
      std::vector<int> x{rank, rank + 10, rank + 20};
      std::vector<int> y(9);
      const auto call = [&](Collective collective, std::size_t in_count, std::size_t out_count) {
        return Request{.collective = collective,
                       .input = in(x.data(), in_count),
                       .output = out(y.data(), out_count),
                       .op = ReduceOp::sum,
                       .root = collective == Collective::broadcast ? 1 : kNoRank};
      };
      expect_ok(named->run("broadcast", call(Collective::broadcast, 3, 3)));
      EXPECT_EQ(std::vector(y.begin(), y.begin() + 3), (std::vector{1, 11, 21}));
      expect_ok(named->run("allgather", call(Collective::allgather, 3, 9)));
      EXPECT_EQ(y, (std::vector{0, 10, 20, 1, 11, 21, 2, 12, 22}));
      expect_ok(named->run("alltoall", call(Collective::alltoall, 3, 3)));
      EXPECT_EQ(std::vector(y.begin(), y.begin() + 3),
                (std::vector{10 * rank, 10 * rank + 1, 10 * rank + 2}));
      expect_ok(named->run("reduce_scatter", call(Collective::reduce_scatter, 3, 1)));
      EXPECT_EQ(y[0], 3 + 30 * rank);
      Request reduce = call(Collective::reduce, 3, 3);
      reduce.root = 2;
      expect_ok(named->run("reduce", reduce));
      if (rank == 2) {
        EXPECT_EQ(std::vector(y.begin(), y.begin() + 3), (std::vector{3, 33, 63}));
      }
      expect_ok(named->run("barrier", {.collective = Collective::barrier}));
    }
    expect_ok(named->end());
  });
}

TEST_P(NamedMeaning, SendMeetsTheRecvOfItsName) {
  run(2, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    constexpr std::size_t kCount = 100'000;
    std::vector<double> a(kCount, 1.0), b(kCount, 2.0);
    const Rank peer = 1 - context.rank();
    const bool sends = context.rank() == 0;
    const auto call = [&](std::vector<double>& data) {
      Request request{.collective = Collective::send, .peer = peer, .receives = !sends};
      if (sends) {
        request.input = in(data.data(), kCount);
        request.output = {nullptr, 0, DataType::f64};
      } else {
        request.input = {nullptr, 0, DataType::f64};
        request.output = out(data.data(), kCount);
      }
      return request;
    };
    Result<Handle> first = named->start(sends ? "a" : "b", call(sends ? a : b));
    Result<Handle> second = named->start(sends ? "b" : "a", call(sends ? b : a));
    ASSERT_TRUE(first.ok() && second.ok());
    expect_ok(first->wait());
    expect_ok(second->wait());
    EXPECT_TRUE(holds(a.data(), kCount, 1.0));
    EXPECT_TRUE(holds(b.data(), kCount, 2.0));
    expect_ok(named->end());
  });
}

TEST_P(NamedMeaning, GroupsRunWhole) {
  run(3, [](Context& context) {
    Result<Named> named = context.named({.fusion_bytes = 1 << 16});
    ASSERT_TRUE(named.ok());
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<double>> x, y;
      std::vector<Request> requests;
      for (std::size_t t = 0; t < 40; ++t) {
        x.emplace_back(1000, context.rank() + static_cast<double>(t));
        y.emplace_back(1000);
      }
      for (std::size_t t = 0; t < 40; ++t) {
        requests.push_back({.collective = Collective::allreduce,
                            .input = in(x[t].data(), 1000),
                            .output = out(y[t].data(), 1000),
                            .op = ReduceOp::sum});
      }
      Result<Handle> handle = named->start_group("all", requests);
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      expect_ok(handle->wait());
      for (std::size_t t = 0; t < 40; ++t)
        EXPECT_TRUE(holds(y[t].data(), 1000, 3.0 + 3.0 * static_cast<double>(t)));
    }
    EXPECT_GE(named->usage()->fused, 3U * 40);
    expect_ok(named->end());
  });
}

// Each rank in an order of its own; nothing is waited for before all are there.
TEST_P(NamedMeaning, TenThousandMayBeOutstanding) {
  run(2, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    constexpr std::size_t kNames = 10'000;
    std::vector<double> x(kNames), y(kNames);
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < kNames; ++i) {
      const std::size_t t = context.rank() == 0 ? i : kNames - 1 - i;
      x[t] = static_cast<double>(t) + context.rank();
      const std::string name = "t" + std::to_string(t);
      Result<Handle> handle =
          t % 2 == 0 ? named->allreduce_start(name, in(&x[t], 1), out(&y[t], 1), ReduceOp::sum)
                     : named->neighbor_allreduce_start(name, in(&x[t], 1), out(&y[t], 1));
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      handles.push_back(*std::move(handle));
    }
    for (Handle& handle : handles) expect_ok(handle.wait());
    for (std::size_t t = 0; t < kNames; ++t)
      ASSERT_EQ(y[t], (2 * static_cast<double>(t) + 1) / (t % 2 == 0 ? 1 : 2)) << t;
    EXPECT_EQ(named->usage()->pending, 0U);
    expect_ok(named->end());
  });
}

TEST_P(NamedMeaning, RanksOutOfDataGiveZerosUntilAllHaveJoined) {
  run(3, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    const Rank rank = context.rank();
    // Rank r has r + 1 batches.
    for (int batch = 0; batch <= rank; ++batch) {
      double x = 1;
      double sum = 0;
      float small = 2;
      float big = 0;
      Result<Handle> a = named->allreduce_start("x", in(&x, 1), out(&sum, 1), ReduceOp::sum);
      Result<Handle> b = named->allreduce_start("y", in(&small, 1), out(&big, 1), ReduceOp::sum);
      ASSERT_TRUE(a.ok() && b.ok());
      expect_ok(a->wait());
      expect_ok(b->wait());
      EXPECT_EQ(sum, 3 - batch);
      EXPECT_EQ(big, 6 - 2.0F * static_cast<float>(batch));
    }
    EXPECT_EQ(named->join().value(), 2);
    double x = 1;
    double sum = 0;
    expect_ok(named->allreduce("x", in(&x, 1), out(&sum, 1), ReduceOp::sum));
    EXPECT_EQ(sum, 3);
    expect_ok(named->end());
  });
}

TEST_P(NamedMeaning, ThousandsOfHandlesAreOutstanding) {
  run(2, [](Context& context) {
    constexpr std::size_t kHandles = 10'000;
    Result<Named> named = context.named({.cache_capacity = 2 * kHandles});
    ASSERT_TRUE(named.ok());
    std::vector<float> x(kHandles, 1.0F + static_cast<float>(context.rank())), y(kHandles);
    for (int round = 0; round < 2; ++round) {
      std::vector<Handle> handles;
      for (const std::size_t t : order_of(kHandles, context.rank(), round)) {
        Result<Handle> handle =
            round == 0
                ? named->allreduce_start(name_at(t), in(&x[t], 1), out(&y[t], 1), ReduceOp::sum)
                : named->neighbor_allreduce_start("n" + name_at(t), in(&x[t], 1), out(&y[t], 1));
        ASSERT_TRUE(handle.ok());
        handles.push_back(*handle);
      }
      for (Handle& handle : handles) expect_ok(handle.wait());
      EXPECT_TRUE(holds(y.data(), kHandles, round == 0 ? 3.0F : 1.5F));
    }
    expect_ok(named->end());
  });
}

TEST(NamedBuffers, ThoseThatAreFreeAreKeptUpToABound) {
  constexpr std::size_t kMostFree = std::size_t{256} << 20;
  named::Buffers buffers;
  const named::Buffers::Buffer large = buffers.take(kMostFree).value();
  const named::Buffers::Buffer small = buffers.take(1).value();
  EXPECT_EQ(buffers.bytes(), large.bytes + small.bytes);
  buffers.give_back(large);
  buffers.give_back(small);
  EXPECT_EQ(buffers.bytes(), kMostFree);
  EXPECT_EQ(buffers.take(kMostFree).value().data, large.data);
}

}  // namespace
}  // namespace weft
