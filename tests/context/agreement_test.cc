// Ranks that disagree about a parameter which must be equal, and counts that no memory has: an error
// that names it instead of wrong data.
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/request/request.h"
#include "tests/context/outcomes.h"

namespace weft {
namespace {

constexpr std::size_t kCount = 5;

// The operation, and then a barrier: a rank whose part was over before it heard of the others learns
// there at the latest that they disagree.
Status then_barrier(Context& context, const Request& request) {
  const Status status = context.run(request);
  return status.ok() ? context.barrier() : status;
}

void expect_disagreement(const std::vector<Status>& statuses,
                         std::initializer_list<const char*> words) {
  bool is_told = false;
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
    bool names_all = true;
    for (const char* word : words) names_all &= status.text().find(word) != std::string_view::npos;
    is_told |= names_all;
  }
  EXPECT_TRUE(is_told) << "nobody says what differs: " << statuses[0].to_string();
}

class Rooted : public testing::TestWithParam<std::pair<Collective, int>> {};

TEST_P(Rooted, RanksThatNameDifferentRootsAllFail) {
  const auto [collective, ranks] = GetParam();
  const auto statuses = outcomes(ranks, [&, what = collective](Context& context) {
    const std::size_t all = kCount * static_cast<std::size_t>(context.size());
    Array<float> x(all, false), y(all, false);
    const bool is_scatter = what == Collective::scatter, is_gather = what == Collective::gather;
    return then_barrier(context, {.collective = what,
                                  .input = in(x.data(), is_scatter ? all : kCount),
                                  .output = out(y.data(), is_gather ? all : kCount),
                                  .op = ReduceOp::sum,
                                  .root = context.rank() == 1 ? 1 : 0});
  });
  expect_disagreement(statuses, {"root"});
}

INSTANTIATE_TEST_SUITE_P(
    Operations, Rooted,
    testing::Values(std::pair{Collective::broadcast, 2}, std::pair{Collective::broadcast, 3},
                    std::pair{Collective::scatter, 2}, std::pair{Collective::scatter, 3},
                    std::pair{Collective::gather, 2}, std::pair{Collective::gather, 3},
                    std::pair{Collective::reduce, 2}, std::pair{Collective::reduce, 3}),
    [](const auto& info) {
      return std::string(name(info.param.first)) + std::to_string(info.param.second);
    });

class Reduced : public testing::TestWithParam<Collective> {};

TEST_P(Reduced, RanksThatReduceDifferentlyAllFail) {
  const auto statuses = outcomes(3, [](Context& context) {
    const std::size_t all = 3 * kCount;
    const bool is_scatter = GetParam() == Collective::reduce_scatter;
    Array<float> x(all, false), y(all, false);
    return then_barrier(context, {.collective = GetParam(),
                                  .input = in(x.data(), all),
                                  .output = out(y.data(), is_scatter ? kCount : all),
                                  .op = context.rank() == 1 ? ReduceOp::max : ReduceOp::sum,
                                  .root = 0});
  });
  expect_disagreement(statuses, {"max", "sum"});
}

INSTANTIATE_TEST_SUITE_P(Operations, Reduced,
                         testing::Values(Collective::allreduce, Collective::local_allreduce,
                                         Collective::reduce, Collective::reduce_scatter),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(Algorithm, MustBeTheSameOnAllRanks) {
  const auto statuses = outcomes(2, [](Context& context) {
    Array<float> x(64, false), y(64, false);
    return then_barrier(context,
                        {.collective = Collective::allreduce,
                         .input = in(x.data(), 64),
                         .output = out(y.data(), 64),
                         .op = ReduceOp::sum,
                         .algorithm = context.rank() == 0 ? AllreduceAlgorithm::ring
                                                          : AllreduceAlgorithm::automatic});
  });
  for (const Status& status : statuses) EXPECT_EQ(status.code(), Code::mismatch);
}

class Needing : public testing::TestWithParam<Collective> {};

// The calls of a channel repeat the one before but for what they need.
TEST_P(Needing, RanksThatDifferInNeedsAllAllFail) {
  Config config = test_config();
  config.channels = 2;
  const auto body = [](Context& context) -> Status {
    Array<float> x(kCount, false), y(kCount, false);
    Request request{.collective = GetParam(), .op = ReduceOp::sum};
    if (request.collective != Collective::barrier) {
      request.input = in(x.data(), kCount);
      request.output = out(y.data(), kCount);
    }
    if (has_root(request.collective)) request.root = 2;
    for (const bool needs_all : {false, true, false}) {
      request.needs_all = needs_all;
      WEFT_RETURN_IF_ERROR(then_barrier(context, request));
    }
    request.needs_all = context.rank() == 1;
    return then_barrier(context, request);
  };
  expect_disagreement(outcomes(3, body, config), {"needs all ranks", "rank"});
}

INSTANTIATE_TEST_SUITE_P(Operations, Needing,
                         testing::Values(Collective::allreduce, Collective::neighbor_allreduce,
                                         Collective::broadcast, Collective::reduce,
                                         Collective::barrier),
                         [](const auto& info) { return std::string(name(info.param)); });

// All that travels about a call in 16 bits, at the ends of its range.
TEST(Agreement, TellsEachDifference) {
  Request ours{.collective = Collective::broadcast, .root = 0}, theirs = ours;
  const auto differ = [&] {
    const std::uint16_t here = agreement_of(ours, Bits::automatic);
    const std::uint16_t there = agreement_of(theirs, Bits::automatic);
    return here == there ? std::string() : disagreement(ours.collective, here, 7, there);
  };
  EXPECT_EQ(differ(), "");
  theirs.root = 1022;
  EXPECT_EQ(differ(), "rank 7 names rank 1022 as the root, this rank names rank 0");
  theirs = ours;
  theirs.needs_all = true;
  EXPECT_EQ(differ(), "rank 7's call needs all ranks (needs_all), this rank's does not");
  std::swap(ours, theirs);
  EXPECT_EQ(differ(), "this rank's call needs all ranks (needs_all), rank 7's does not");
  ours = theirs = {.collective = Collective::allreduce,
                   .op = ReduceOp::sum,
                   .algorithm = AllreduceAlgorithm::nccl,
                   .bits = Bits::fixed,
                   .needs_all = true,
                   .compression = Compression::low_rank};
  theirs.compression = Compression::e5m2;
  EXPECT_EQ(differ(), "rank 7 compresses as e5m2, this rank as low_rank");
  theirs = ours;
  theirs.algorithm = AllreduceAlgorithm::automatic;
  EXPECT_EQ(differ(), "rank 7 asks for another algorithm than this rank");
  // Ranks of a pair need each other anyway.
  ours = theirs = {.collective = Collective::pair_average, .peer = 7};
  theirs.needs_all = true;
  EXPECT_EQ(differ(), "");
}

// Counts whose bytes overflow, of every operation.
TEST(Counts, ThatNoMemoryHasAreInvalidInEveryOperation) {
  const auto statuses = outcomes(2, [](Context& context) {
    constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
    std::vector<float> x(64), y(64);
    const std::vector<Rank> group{0, 1};
    for (const std::size_t count : {std::size_t{1} << 62, (std::size_t{1} << 62) + 1, kMost}) {
      for (std::uint8_t number = 1; number <= 16; ++number) {
        const auto what = static_cast<Collective>(number);
        if (what == Collective::barrier) continue;
        for (const bool receives : {false, true}) {
          if (receives && what != Collective::send) continue;
          const Status status = context.run({.collective = what,
                                             .input = in(x.data(), count),
                                             .output = out(y.data(), count),
                                             .op = ReduceOp::sum,
                                             .root = context.rank(),
                                             .peer = 1 - context.rank(),
                                             .receives = receives,
                                             .group = group});
          EXPECT_EQ(status.code(), Code::invalid_argument)
              << name(what) << " of " << count << ": " << status.to_string();
        }
      }
      const std::vector<std::size_t> counts{count, count};
      for (const Collective what : {Collective::allgather, Collective::gather, Collective::scatter,
                                    Collective::reduce_scatter, Collective::alltoall}) {
        const Status status = context.run({.collective = what,
                                           .input = in(x.data(), 4),
                                           .output = out(y.data(), 4),
                                           .op = ReduceOp::sum,
                                           .root = context.rank(),
                                           .counts = counts,
                                           .receive_counts = counts});
        EXPECT_EQ(status.code(), Code::invalid_argument)
            << name(what) << " with counts of " << count << ": " << status.to_string();
      }
    }
    return context.barrier();  // nothing has moved, and nothing has failed
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
}

// So that the sum of two sizes does not overflow either.
TEST(Counts, MayFillHalfOfTheAddressSpace) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 2 / sizeof(double);
  EXPECT_TRUE(is_count_of_memory(kMost, DataType::f64));
  EXPECT_FALSE(is_count_of_memory(kMost + 1, DataType::f64));
}

}  // namespace
}  // namespace weft
