// A thousand workers and their group generator: slow ones, some that die, and a generator that dies.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/base/sanitized.h"
#include "tests/partial/cluster.h"

namespace weft::test {
namespace {

constexpr int kManyWorkers = searched(1000, 160);
constexpr int kRanksPerMachine = 8;

GroupOptions options_of(const std::string& law, int size, int per_machine, std::uint64_t seed) {
  GroupOptions options{.size = size, .law = group_law(law).value(), .seed = seed};
  for (Rank rank = 0; rank < size; ++rank) options.machine.push_back(rank / per_machine);
  return options;
}

class Laws : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Laws, testing::Values("random:3", "pairs", "smart:3"),
                         [](const auto& info) {
                           return std::string(info.param,
                                              std::string(info.param).find(':') == 6 ? 6 : 5);
                         });

// The cluster itself finds two groups at once at a worker, a group with who has left, and groups out
// of their order.
TEST_P(Laws, EveryWorkerIsServedInOrderWhateverDies) {
  for (std::uint64_t seed = 1; seed <= seeds(4); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Draws draws(seed);
    ClusterOptions options{.groups = options_of(GetParam(), kManyWorkers, kRanksPerMachine, seed),
                           .seed = seed};
    const auto any_rank = [&] { return static_cast<Rank>(draws.below(kManyWorkers)); };
    for (int i = 0; i < kManyWorkers / 100; ++i)
      options.slowness[any_rank()] = 3 + 3 * draws.unit();
    for (int i = 0; i < kManyWorkers / 50; ++i)
      options.deaths.emplace_back(12 * draws.unit(), any_rank());
    for (Rank home = 0; home < 3; ++home) options.deaths.emplace_back(1.5 + 3 * home, home);
    Cluster cluster(options);
    cluster.run();
    ASSERT_EQ(cluster.faults(), std::vector<std::string>{});
    EXPECT_GE(cluster.successions(), 3U);
    std::uint64_t died = 0;
    for (Rank rank = 0; rank < kManyWorkers; ++rank)
      died += cluster.iterations(rank) < options.iterations ? 1 : 0;
    EXPECT_LE(died, options.deaths.size());
    // Who waits for a slow worker waits for as long as it computes, and in a queue for several of them.
    EXPECT_LT(cluster.longest_wait(), 40);
  }
}

struct Shape {
  int workers = 16;
  int per_machine = 4;
  double until = 300;
};

// Iterations of all workers in a fixed time with one slow worker, relative to those without it.
double share_kept(const Shape& shape, double slowness, std::uint64_t seed) {
  double done[2];
  for (const bool has_slow : {false, true}) {
    ClusterOptions options{.groups = options_of("smart", shape.workers, shape.per_machine, seed),
                           .iterations = 1'000'000,
                           .until = shape.until,
                           .seed = seed};
    if (has_slow) options.slowness[5] = slowness;
    Cluster cluster(options);
    cluster.run();
    EXPECT_EQ(cluster.faults(), std::vector<std::string>{});
    EXPECT_GT(cluster.iterations(5), 0.5 * options.until / (has_slow ? slowness : 1));
    done[has_slow ? 1 : 0] = static_cast<double>(cluster.iterations());
  }
  return done[1] / done[0];
}

// The paper's straggler sleeps 2 or 5 iterations more, and smart groups keep 0.80 and 0.41 to 0.46. At
// best 15 of 16 workers lose nothing.
TEST(SmartGroups, HardlyWaitForASlowWorker) {
  for (const double slowness : {3.0, 6.0}) {
    for (std::uint64_t seed = 1; seed <= seeds(4); ++seed)
      EXPECT_GT(share_kept({}, slowness, seed), 0.85) << slowness << ", seed " << seed;
  }
}

// Before it is known to be slow, it holds some workers up. They come back to the others' rounds.
TEST(SmartGroups, HardlyWaitForASlowWorkerOfMany) {
  const Shape shape{searched(512, 128), 8, 100};
  for (const double slowness : {3.0, 6.0})
    EXPECT_GT(share_kept(shape, slowness, 1), 0.9) << slowness;
}

// Nobody is left out, whatever the others' speeds are.
TEST(SmartGroups, ServeWorkersOfAllSpeeds) {
  for (std::uint64_t seed = 1; seed <= seeds(8); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Draws draws(seed);
    ClusterOptions options{
        .groups = options_of("smart", 48, 6, seed), .iterations = 40, .seed = seed};
    const double most = 1 + static_cast<double>(seed);
    for (Rank rank = 0; rank < 48; ++rank) options.slowness[rank] = 1 + (most - 1) * draws.unit();
    Cluster cluster(options);
    cluster.run();
    EXPECT_EQ(cluster.faults(), std::vector<std::string>{});
    for (Rank rank = 0; rank < 48; ++rank) EXPECT_EQ(cluster.iterations(rank), 40U) << rank;
    EXPECT_LT(cluster.longest_wait(), 6 * most);
  }
}

// The others have left when its group would be due, or are as slow as it is.
TEST(SmartGroups, ServeASlowWorkerThatIsTheLast) {
  ClusterOptions options{.groups = options_of("smart", 8, 4, 1), .iterations = 30};
  options.slowness = {{2, 5.0}, {6, 8.0}};
  Cluster cluster(options);
  cluster.run();
  EXPECT_EQ(cluster.faults(), std::vector<std::string>{});
  for (Rank rank = 0; rank < 8; ++rank) EXPECT_EQ(cluster.iterations(rank), 30U) << rank;
}

}  // namespace
}  // namespace weft::test
