// NamedOptions::autotune: the search ends, all ranks end with the same values, and results are right
// while it goes on.
#include "tests/context/outcomes.h"

namespace weft {
namespace {

struct Found {
  Named::Usage usage;
  int rounds = 0;
};

// A loop over six names, until rank 0 has found the best values.
Found search(Context& context, const NamedOptions& options) {
  constexpr int kMostRounds = 3000;
  constexpr std::size_t kNames = 6, kCount = 500;
  Found found;
  Result<Named> named = context.named(options);
  EXPECT_TRUE(named.ok()) << named.status().to_string();
  std::vector<std::vector<float>> x(kNames, std::vector<float>(kCount)), y = x;
  for (std::int32_t goes_on = 1; goes_on != 0 && found.rounds < kMostRounds; ++found.rounds) {
    std::vector<Handle> handles;
    for (std::size_t t = 0; t < kNames; ++t) {
      const std::size_t name = (t + static_cast<std::size_t>(context.rank())) % kNames;
      const auto value = static_cast<float>(name + static_cast<std::size_t>(found.rounds % 7));
      std::ranges::fill(x[name], value);
      Result<Handle> handle =
          named->allreduce_start("layer" + std::to_string(name), in(x[name].data(), kCount),
                                 out(y[name].data(), kCount), ReduceOp::sum);
      EXPECT_TRUE(handle.ok()) << handle.status().to_string();
      handles.push_back(*handle);
    }
    for (Handle& handle : handles) EXPECT_TRUE(handle.wait().ok());
    for (std::size_t t = 0; t < kNames; ++t) {
      const float sum = x[t].front() * static_cast<float>(context.size());
      EXPECT_TRUE(holds(y[t].data(), kCount, sum)) << found.rounds;
    }
    goes_on = named->usage().value().is_tuning ? 1 : 0;
    EXPECT_TRUE(context.broadcast(in(&goes_on, 1), out(&goes_on, 1), 0).ok());
  }
  // What rank 0 has found last is told with the next cycle.
  EXPECT_TRUE(named->allreduce("layer0", in(x[0].data(), kCount), out(y[0].data(), kCount)).ok());
  found.usage = named->usage().value();
  EXPECT_TRUE(named->end().ok());
  return found;
}

TEST(Autotune, EndsWithTheSameValuesOnAllRanks) {
  constexpr int kRanks = 3;
  std::vector<Found> found(kRanks);
  run_job(kRanks, [&](Context& context) {
    found[static_cast<std::size_t>(context.rank())] = search(context, {.autotune = true});
  });
  for (const Found& each : found) {
    EXPECT_FALSE(each.usage.is_tuning);
    EXPECT_GT(each.rounds, 20);
    EXPECT_EQ(each.usage.fusion_bytes, found[0].usage.fusion_bytes);
    EXPECT_EQ(each.usage.fused_tensor_bytes, found[0].usage.fused_tensor_bytes);
    EXPECT_EQ(each.usage.gather_us, found[0].usage.gather_us);
    EXPECT_EQ(each.usage.piece_bytes, found[0].usage.piece_bytes);
  }
}

TEST(Autotune, LeavesWhatIsGiven) {
  run_job(2, [](Context& context) {
    const Found found = search(context, {.fusion_bytes = 4096, .gather_us = 0, .autotune = true});
    EXPECT_EQ(found.usage.fusion_bytes, 4096U);
    EXPECT_EQ(found.usage.gather_us, 0);
    const Found off = search(context, {});
    EXPECT_EQ(off.rounds, 1);
    EXPECT_EQ(off.usage.fusion_bytes, 512U << 10);
    EXPECT_EQ(off.usage.gather_us, -1);
    const Found pieces = search(context, {.piece_bytes = 1000});
    EXPECT_EQ(pieces.usage.piece_bytes, 1024U) << "whole cache lines";
    const Found most = search(context, {.piece_bytes = std::int64_t{1} << 40});
    EXPECT_EQ(most.usage.piece_bytes, off.usage.piece_bytes);
  });
}

}  // namespace
}  // namespace weft
