// Gatherings, scatterings and reductions to parts: every operation against its definition, ranks as
// threads, sizes from nothing to more than a mebibyte, memory of both kinds.
#include <numeric>

#include "tests/context/job.h"

namespace weft {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 7, 1000, 70'003, 300'001};

// What rank `rank` holds at `i`, for rank `to` where that matters.
std::int32_t element(Rank rank, std::size_t i, Rank to = 0) {
  return static_cast<std::int32_t>(i % 9973) + 10'000 * rank + 1'000'000 * to;
}

// Parts that differ from rank to rank, one of them empty.
std::vector<std::size_t> uneven(int ranks, std::size_t count) {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < ranks; ++rank) {
    counts.push_back(rank == 1 ? 0 : count + static_cast<std::size_t>(rank));
  }
  return counts;
}

std::size_t sum(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::size_t offset_of(const std::vector<std::size_t>& counts, Rank rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}

void expect_ok(const Status& status) {
  ASSERT_TRUE(status.ok()) << status.to_string();
}

void expect_gathered(Array<std::int32_t>& y, const std::vector<std::size_t>& counts) {
  std::size_t at = 0;
  for (Rank rank = 0; rank < static_cast<Rank>(counts.size()); ++rank) {
    const std::size_t count = counts[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(holds(y.data() + at, count, [&](std::size_t i) { return element(rank, i); }))
        << "from rank " << rank;
    at += count;
  }
}

class Parts : public ::testing::TestWithParam<int> {
 protected:
  // Runs `body` on every rank for every size and both kinds of memory.
  template <typename Body>
  void run(Body body) {
    run_job(GetParam(), [&](Context& context) {
      for (const std::size_t count : kCounts) {
        for (const bool foreign : {false, true}) body(context, count, foreign);
      }
    });
  }
};

TEST_P(Parts, AllgatherOfEqualAndUnequalParts) {
  run([](Context& context, std::size_t count, bool foreign) {
    for (const bool equal : {true, false}) {
      const auto counts =
          equal ? std::vector<std::size_t>(static_cast<std::size_t>(context.size()), count)
                : uneven(context.size(), count);
      const std::size_t own = counts[static_cast<std::size_t>(context.rank())];
      Array<std::int32_t> x(own, foreign), y(sum(counts), foreign);
      for (std::size_t i = 0; i < own; ++i) x[i] = element(context.rank(), i);
      const std::span<const std::size_t> given =
          equal ? std::span<const std::size_t>() : std::span<const std::size_t>(counts);
      expect_ok(context.allgather(in(x.data(), own), out(y.data(), y.size()), given));
      expect_gathered(y, counts);
      // In place: what this rank gives is there already.
      Array<std::int32_t> z(sum(counts), foreign);
      std::int32_t* mine = z.data() + offset_of(counts, context.rank());
      for (std::size_t i = 0; i < own; ++i) mine[i] = element(context.rank(), i);
      expect_ok(context.allgather(in(mine, own), out(z.data(), z.size()), given));
      expect_gathered(z, counts);
    }
  });
}

TEST_P(Parts, ReduceScatterGivesEachRankItsBlock) {
  run([](Context& context, std::size_t count, bool foreign) {
    const int ranks = context.size();
    for (const bool given : {false, true}) {
      const auto parts = static_cast<std::uint32_t>(ranks);
      const auto counts = uneven(ranks, count);
      const std::size_t all = given ? sum(counts) : count;
      const Range even = block_range(all, 1, parts, static_cast<std::uint32_t>(context.rank()));
      const Range own = given ? Range{offset_of(counts, context.rank()),
                                      counts[static_cast<std::size_t>(context.rank())]}
                              : even;
      Array<std::int64_t> x(all, foreign), y(own.count, foreign);
      for (std::size_t i = 0; i < all; ++i)
        x[i] = static_cast<std::int64_t>(i) * (context.rank() + 1);
      const std::span<const std::size_t> blocks =
          given ? std::span<const std::size_t>(counts) : std::span<const std::size_t>();
      for (const bool in_place : {false, true}) {
        std::int64_t* to = in_place ? x.data() + own.offset : y.data();
        expect_ok(
            context.reduce_scatter(in(x.data(), all), out(to, own.count), ReduceOp::sum, blocks));
        ASSERT_TRUE(holds(to, own.count, [&](std::size_t i) {
          return static_cast<std::int64_t>(own.offset + i) * ranks * (ranks + 1) / 2;
        }));
      }
    }
  });
}

TEST_P(Parts, ReduceToEveryRoot) {
  run([](Context& context, std::size_t count, bool foreign) {
    for (Rank root = 0; root < context.size(); ++root) {
      Array<double> x(count, foreign), y(count, foreign);
      for (std::size_t i = 0; i < count; ++i) x[i] = context.rank() + static_cast<double>(i);
      const bool is_root = context.rank() == root;
      const Output to = is_root ? out(y.data(), count) : Output{};
      expect_ok(context.reduce(in(x.data(), count), to, root));
      const double mean = (context.size() - 1) / 2.0;
      ASSERT_TRUE(holds(
          y.data(), is_root ? count : 0,
          [&](std::size_t i) { return mean + static_cast<double>(i); }, 1e-9));
      expect_ok(context.reduce(in(x.data(), count), is_root ? out(x.data(), count) : Output{}, root,
                               ReduceOp::max));
      const double largest = is_root ? context.size() - 1 : context.rank();
      ASSERT_TRUE(
          holds(x.data(), count, [&](std::size_t i) { return largest + static_cast<double>(i); }));
    }
  });
}

TEST_P(Parts, GatherAndScatterAreEachOthersInverse) {
  run([](Context& context, std::size_t count, bool foreign) {
    const auto counts = uneven(context.size(), count);
    const std::size_t own = counts[static_cast<std::size_t>(context.rank())];
    for (Rank root = 0; root < context.size(); ++root) {
      const bool is_root = context.rank() == root;
      Array<std::int32_t> x(own, foreign), y(is_root ? sum(counts) : 0, foreign), z(own, foreign);
      for (std::size_t i = 0; i < own; ++i) x[i] = element(context.rank(), i);
      expect_ok(context.gather(in(x.data(), own), out(y.data(), y.size()), root, counts));
      if (is_root) expect_gathered(y, counts);
      expect_ok(context.scatter(in(y.data(), y.size()), out(z.data(), own), root, counts));
      ASSERT_TRUE(holds(z.data(), own, [&](std::size_t i) { return element(context.rank(), i); }));
      // In place: the root's block is where it belongs, in both directions.
      std::int32_t* mine = is_root ? y.data() + offset_of(counts, root) : x.data();
      expect_ok(context.gather(in(mine, own), out(y.data(), y.size()), root, counts));
      expect_ok(context.scatter(in(y.data(), y.size()), out(mine, own), root, counts));
      ASSERT_TRUE(holds(mine, own, [&](std::size_t i) { return element(context.rank(), i); }));
    }
  });
}

TEST_P(Parts, AlltoallOfEqualAndUnequalBlocks) {
  run([](Context& context, std::size_t count, bool foreign) {
    const auto ranks = static_cast<std::size_t>(context.size());
    const auto self = static_cast<std::size_t>(context.rank());
    for (const bool equal : {true, false}) {
      std::vector<std::size_t> to(ranks, count), from(ranks, count);
      for (std::size_t r = 0; !equal && r < ranks; ++r) {
        to[r] = (self + 2 * r) % 3 * count;
        from[r] = (r + 2 * self) % 3 * count;
      }
      Array<std::int32_t> x(sum(to), foreign), y(sum(from), foreign);
      std::size_t at = 0;
      for (std::size_t r = 0; r < ranks; ++r) {
        for (std::size_t i = 0; i < to[r]; ++i)
          x[at++] = element(context.rank(), i, static_cast<Rank>(r));
      }
      const Input input = in(x.data(), x.size());
      const Output apart = out(y.data(), y.size());
      expect_ok(equal ? context.alltoall(input, apart) : context.alltoallv(input, apart, to, from));
      if (equal) expect_ok(context.alltoall(input, out(x.data(), x.size())));
      at = 0;
      for (std::size_t r = 0; r < ranks; ++r) {
        for (std::size_t i = 0; i < from[r]; ++i, ++at) {
          ASSERT_EQ(y[at], element(static_cast<Rank>(r), i, context.rank()));
          if (equal) {
            ASSERT_EQ(x[at], y[at]);
          }
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Parts, ::testing::Values(1, 2, 3, 4),
                         [](const auto& ranks) { return std::to_string(ranks.param); });

TEST(ReduceOperators, OfPartsAreThoseOfAllreduce) {
  run_job(3, [](Context& context) {
    for (const auto op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product,
                          ReduceOp::bit_and, ReduceOp::bit_or, ReduceOp::bit_xor}) {
      constexpr std::size_t kElements = 3 * 500;
      Array<std::uint32_t> x(kElements, false), whole(kElements, false), part(500, false);
      for (std::size_t i = 0; i < kElements; ++i)
        x[i] = static_cast<std::uint32_t>(i * 7 + 13) << context.rank();
      expect_ok(context.allreduce(in(x.data(), kElements), out(whole.data(), kElements), op));
      expect_ok(context.reduce_scatter(in(x.data(), kElements), out(part.data(), 500), op));
      ASSERT_TRUE(holds(part.data(), 500, [&](std::size_t i) {
        return whole[static_cast<std::size_t>(context.rank()) * 500 + i];
      }));
      Array<std::uint32_t> root(kElements, false);
      expect_ok(context.reduce(in(x.data(), kElements), out(root.data(), kElements), 2, op));
      if (context.rank() != 2) continue;
      ASSERT_TRUE(holds(root.data(), kElements, [&](std::size_t i) { return whole[i]; }));
    }
  });
}

TEST(PartsHandles, OfAllOperationsInFlightTogether) {
  run_job(4, [](Context& context) {
    constexpr std::size_t kCount = 4 * 9000;
    Array<float> x(kCount, true), block(kCount / 4, false), gathered(4 * kCount, true),
        turned(kCount, false), sums(kCount, false), part(kCount / 4, false);
    for (int round = 0; round < 5; ++round) {
      for (std::size_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(context.rank() + round);
      std::vector<Result<Handle>> handles;
      const Input input = in(x.data(), kCount);
      handles.push_back(context.allgather_start(input, out(gathered.data(), 4 * kCount)));
      handles.push_back(context.reduce_scatter_start(input, out(block.data(), kCount / 4)));
      handles.push_back(context.alltoall_start(input, out(turned.data(), kCount)));
      handles.push_back(context.reduce_start(input, out(sums.data(), kCount), 3, ReduceOp::sum));
      handles.push_back(context.scatter_start(input, out(part.data(), kCount / 4), 2));
      for (Result<Handle>& handle : handles) {
        ASSERT_TRUE(handle.ok());
        expect_ok(handle->wait());
      }
      EXPECT_FLOAT_EQ(block[0], 1.5F + static_cast<float>(round));
      EXPECT_FLOAT_EQ(part[kCount / 4 - 1], static_cast<float>(2 + round));
      for (std::size_t from = 0; from < 4; ++from) {
        EXPECT_FLOAT_EQ(gathered[from * kCount],
                        static_cast<float>(from) + static_cast<float>(round));
        EXPECT_FLOAT_EQ(turned[from * kCount / 4],
                        static_cast<float>(from) + static_cast<float>(round));
      }
      if (context.rank() == 3) {
        EXPECT_FLOAT_EQ(sums[7], static_cast<float>(6 + 4 * round));
      }
    }
  });
}

// A slice of no element overlaps nothing, wherever it begins.
TEST(Parts, AnEmptyTensorMayLieInTheOther) {
  run_job(2, [](Context& context) {
    const bool is_first = context.rank() == 0;
    Array<std::int32_t> x(4, false), y(4, false);
    for (std::size_t i = 0; i < 4; ++i) x[i] = 7;
    const std::size_t counts[] = {4, 0};
    Request gather;
    gather.collective = Collective::allgather;
    gather.input = is_first ? in(x.data(), 4) : in(y.data() + 1, 0);
    gather.output = out(y.data(), 4);
    gather.counts = counts;
    expect_ok(context.run(gather));
    EXPECT_TRUE(holds(y.data(), 4, 7));
    // Rank 0 sends all to rank 1.
    const std::size_t sent[] = {0, is_first ? 4UL : 0UL};
    const std::size_t received[] = {is_first ? 0UL : 4UL, 0};
    Request turn;
    turn.collective = Collective::alltoall;
    turn.input = is_first ? in(x.data(), 4) : in(y.data(), 0);
    turn.output = is_first ? out(x.data(), 0) : out(y.data(), 4);
    turn.counts = sent;
    turn.receive_counts = received;
    y[0] = 0;
    expect_ok(context.run(turn));
    EXPECT_TRUE(is_first || holds(y.data(), 4, 7));
    expect_ok(context.set_graph(*Graph::from_edges(2, {{0, 1, 1.0}}, {1.0, 0.0}, "one edge")));
    y[0] = 0;
    expect_ok(is_first ? context.neighbor_allgather(in(x.data(), 4), out(x.data(), 0))
                       : context.neighbor_allgather(in(x.data(), 4), out(y.data(), 4)));
    EXPECT_TRUE(is_first || holds(y.data(), 4, 7));
  });
}

}  // namespace
}  // namespace weft
