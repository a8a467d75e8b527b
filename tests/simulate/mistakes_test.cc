// What cannot be simulated is told, with the ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tests/simulate/jobs.h"

namespace weft {
namespace {

std::string complaint(const Result<Simulation>& run) {
  return run.ok() ? "none" : std::string(run.status().text());
}

Planned lone(Rank rank, bool sends) {
  View view{rank, 2, {}, {}};
  (sends ? view.out : view.in).push_back(1 - rank);
  return {view, sends ? plan_send(view) : plan_receive(view)};
}

TEST(Mistakes, MessagesThatAreNotSentOrNotTaken) {
  const Cluster cluster = cluster_of(2, 1, 1);
  const OperandBytes bytes{1000, 1000, 0};
  const auto both = [](bool sends) { return [sends](Rank rank) { return lone(rank, sends); }; };
  EXPECT_EQ(complaint(simulate_plans(cluster, 2, both(false), bytes)),
            "message 0 that rank 0 takes from rank 1 is not sent");
  EXPECT_EQ(complaint(simulate_plans(cluster, 2, both(true), bytes)),
            "rank 0 sends rank 1 1 messages and 0 are taken");
}

TEST(Mistakes, RanksThatWaitForEachOther) {
  const Cluster cluster = cluster_of(2, 1, 1);
  const auto plan = [](Rank rank) {
    const View view{rank, 2, {1 - rank}, {1 - rank}};
    Plan steps = plan_pair_average(view, {});
    std::ranges::reverse(steps.steps);  // everybody takes first
    return Planned{view, steps};
  };
  EXPECT_EQ(complaint(simulate_plans(cluster, 2, plan, {1000, 1000, 0}, {.collapse = false})),
            "rank 0 waits for ever at step 0 for rank 1");
}

TEST(Mistakes, MachinesWithoutAWayBetweenThem) {
  Cluster cluster = cluster_of(3, 1, 1);
  cluster.rails.push_back(cluster.rails[0]);
  cluster.rails[0].nics[2] = -1;
  cluster.rails[1].nics = {-1, -1, 0};
  EXPECT_NE(complaint(simulate_neighbors(cluster, {{0, 2}}, 1000)).find("no rail between"),
            std::string::npos)
      << complaint(simulate_neighbors(cluster, {{0, 2}}, 1000));
}

TEST(Mistakes, MoreThanCanBeSimulated) {
  const Cluster cluster = cluster_of(16, 1, 1);
  EXPECT_EQ(complaint(simulate_allreduce(cluster, AllreduceAlgorithm::split, 64'000,
                                         {.collapse = false, .most_messages = 100})),
            "allreduce split on 16 ranks: more than 100 messages to simulate");
}

TEST(Mistakes, RanksThatAreNotThere) {
  const Cluster cluster = cluster_of(2, 1, 1);
  SimulateOptions options;
  options.stragglers = {{.rank = 2}};
  EXPECT_EQ(complaint(simulate_neighbors(cluster, {{0, 1}}, 1000, options)),
            "a straggler, rank 2: there are 2 ranks");
  options.stragglers = {{.rank = 1, .delay_us = 5}, {.rank = 1, .slowdown = 2}};
  EXPECT_EQ(complaint(simulate_neighbors(cluster, {{0, 1}}, 1000, options)),
            "rank 1 is a straggler twice");
  options.stragglers = {{.rank = 1, .delay_us = -1}};
  EXPECT_NE(complaint(simulate_neighbors(cluster, {{0, 1}}, 1000, options)), "none");
}

// Time would not go on.
TEST(Mistakes, NumbersThatAreNone) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const Cluster cluster = cluster_of(2, 1, 1);
  const auto code = [&](SimulateOptions options) {
    return simulate_neighbors(cluster, {{0, 1}}, 100, std::move(options)).status().code();
  };
  EXPECT_EQ(code({}), Code::ok);
  EXPECT_EQ(code({.message_us = kNone}), Code::invalid_argument);
  EXPECT_EQ(code({.message_us = std::numeric_limits<double>::infinity()}), Code::invalid_argument);
  EXPECT_EQ(code({.combine_gbyte_per_s = kNone}), Code::invalid_argument);
  EXPECT_EQ(code({.combine_gbyte_per_s = -1}), Code::invalid_argument);
}

}  // namespace
}  // namespace weft
