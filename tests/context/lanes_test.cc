// Large operations over several lanes: the same results, errors and order as on one lane.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <latch>
#include <numeric>

#include "engine/job/job.h"
#include "tests/base/sanitized.h"
#include "tests/context/outcomes.h"

namespace weft {
namespace {

constexpr std::size_t kLarge =
    (std::size_t{3} << 20) / sizeof(float) + 5;  // three stripes of floats

Config with_lanes(int lanes) {
  Config config = test_config();
  config.lanes = lanes;
  return config;
}

TEST(LaneCount, FollowsTheCoresAndTheInterfaces) {
  const std::vector<RailRecord> rails{{"ib", "mlx5_0", "", 1}, {"ib", "mlx5_1", "", 1},
                                      {"ib", "mlx5_2", "", 1}, {"ib", "mlx5_3", "", 1},
                                      {"ib", "mlx5_4", "", 1}, {"ib", "mlx5_5", "", 9}};
  Config config;
  config.size = 16;
  EXPECT_EQ(lanes_of(config, {}, 2, 2), 1U);      // callers compute on the cores
  EXPECT_EQ(lanes_of(config, {}, 4, 16), 2U);     // half of the rank's cores
  EXPECT_EQ(lanes_of(config, {}, 1, 64), 4U);     // four, though it has no interface
  EXPECT_EQ(lanes_of(config, rails, 1, 64), 5U);  // one for each near interface
  EXPECT_EQ(lanes_of(config, rails, 1, 64, true), 5U);
  EXPECT_EQ(lanes_of(config, {}, 4, 16, true), 1U);  // GPUs combine a tensor in one launch
  config.lanes = 7;
  EXPECT_EQ(lanes_of(config, {}, 2, 2), 7U);
  config.size = 1;
  EXPECT_EQ(lanes_of(config, {}, 1, 64), 1U);
}

TEST(LaneCount, OthersThanOneNeedThreads) {
  Config config = with_lanes(2);
  config.progress = ProgressMode::waiter;
  expect_names(config.check(), Code::invalid_argument, {"WEFT_LANES=2", "WEFT_PROGRESS"});
}

// What rank r has at place i; exact in float32 also when eight of them are added.
float value(Rank rank, std::size_t i) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 1000);
}

// All kinds of operations that are cut, of sizes that are cut evenly, unevenly and not at all.
void check_operations(Context& context, bool foreign, bool in_place) {
  for (const std::size_t count : {kLarge, std::size_t{1} << 20, std::size_t{1000}}) {
    Array<float> x(count, foreign), other(count, foreign);
    Array<float>& y = in_place ? x : other;
    const auto fill = [&] {
      for (std::size_t i = 0; i < count; ++i) x[i] = value(context.rank(), i);
    };
    const int ranks = context.size();
    const auto sum = [ranks](std::size_t i) {
      float all = 0;
      for (Rank rank = 0; rank < ranks; ++rank) all += value(rank, i);
      return all;
    };
    fill();
    ASSERT_TRUE(context.allreduce(in(x.data(), count), out(y.data(), count), ReduceOp::sum).ok());
    ASSERT_TRUE(holds(y.data(), count, sum));
    fill();
    ASSERT_TRUE(context.reduce(in(x.data(), count), out(y.data(), count), 1, ReduceOp::sum).ok());
    if (context.rank() == 1) {
      ASSERT_TRUE(holds(y.data(), count, sum));
    }
    fill();
    ASSERT_TRUE(context.broadcast(in(x.data(), count), out(y.data(), count), 0).ok());
    ASSERT_TRUE(holds(y.data(), count, [](std::size_t i) { return value(0, i); }));
    fill();
    ASSERT_TRUE(context.neighbor_allreduce(in(x.data(), count), out(y.data(), count)).ok());
    const Rank before = (context.rank() + ranks - 1) % ranks;
    ASSERT_TRUE(holds(
        y.data(), count,
        [&](std::size_t i) { return (value(context.rank(), i) + value(before, i)) / 2; }, 1e-3));
  }
}

TEST(Lanes, GiveTheResultsOfOneLane) {
  for (const int ranks : {2, 3}) {
    if (kIsSanitized && ranks == 2) continue;
    run_job(
        ranks,
        [](Context& context) {
          const Result<Graph> ring = ring_graph(context.size(), RingStyle::next);
          ASSERT_TRUE(ring.ok());
          ASSERT_TRUE(context.set_graph(*ring).ok());
          for (const bool foreign : {false, true}) {
            check_operations(context, foreign, false);
            check_operations(context, foreign, true);
          }
        },
        with_lanes(3));
  }
}

// Parts of many sizes: each is cut by its own size, which the other senders do not know.
TEST(Lanes, GatherLargeAndSmallParts) {
  run_job(
      4,
      [](Context& context) {
        const std::vector<std::size_t> counts{kLarge, 10, kLarge * 3 / 4, 0};
        const std::size_t own = counts[static_cast<std::size_t>(context.rank())];
        const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
        for (const bool foreign : {false, true}) {
          for (const Rank root : {0, 1}) {
            Array<float> x(own, foreign), y(all, foreign);
            for (std::size_t i = 0; i < own; ++i) x[i] = value(context.rank(), i);
            const Status status =
                context.gather(in(x.data(), own), out(y.data(), all), root, counts);
            ASSERT_TRUE(status.ok()) << status.to_string();
            if (context.rank() != root) continue;
            std::size_t begin = 0;
            for (Rank rank = 0; rank < 4; ++rank) {
              const std::size_t count = counts[static_cast<std::size_t>(rank)];
              ASSERT_TRUE(
                  holds(y.data() + begin, count, [rank](std::size_t i) { return value(rank, i); }))
                  << "of rank " << rank;
              begin += count;
            }
          }
        }
      },
      with_lanes(3));
}

TEST(Lanes, GatherInPlace) {
  run_job(
      2,
      [](Context& context) {
        Array<float> y(2 * kLarge, false);
        float* own = y.data() + static_cast<std::size_t>(context.rank()) * kLarge;
        for (std::size_t i = 0; i < kLarge; ++i) own[i] = value(context.rank(), i);
        ASSERT_TRUE(context.gather(in(own, kLarge), out(y.data(), 2 * kLarge), 0).ok());
        if (context.rank() != 0) return;
        for (Rank rank = 0; rank < 2; ++rank) {
          ASSERT_TRUE(holds(y.data() + static_cast<std::size_t>(rank) * kLarge, kLarge,
                            [rank](std::size_t i) { return value(rank, i); }));
        }
      },
      with_lanes(2));
}

TEST(Lanes, AreAsManyAsTheRankWithTheFewestCanHave) {
  run_job_with(
      3, [](Rank rank) { return with_lanes(rank == 1 ? 2 : 4); },
      [](Context& context) {
        Array<float> x(4 * kLarge, false), y(4 * kLarge, false);
        ASSERT_TRUE(context.allreduce(in(x.data(), x.size()), out(y.data(), y.size())).ok());
        EXPECT_NE(context.explain().find("in 2 stripes"), std::string::npos) << context.explain();
      });
}

// Ranks that would have several lanes, beside one that has one lane and reads nobody's record.
TEST(Lanes, AreOneIfARankHasOne) {
  run_job_with(
      2, [](Rank rank) { return with_lanes(rank == 1 ? 1 : 4); },
      [](Context& context) {
        Array<float> x(kLarge, false), y(kLarge, false);
        ASSERT_TRUE(context.allreduce(in(x.data(), kLarge), out(y.data(), kLarge)).ok());
        EXPECT_EQ(context.explain().find("stripes"), std::string::npos) << context.explain();
      });
}

// More than there are channels; waited for from the last to the first.
TEST(Lanes, ManyOperationsInFlightLargeAndSmall) {
  Config config = with_lanes(2);
  config.channels = 2;
  run_job(
      2,
      [](Context& context) {
        constexpr std::size_t kCounts[] = {kLarge, 10, 2 * kLarge, kLarge, 1};
        std::vector<std::unique_ptr<Array<float>>> arrays;
        std::vector<Handle> handles;
        for (const std::size_t count : kCounts) {
          arrays.push_back(std::make_unique<Array<float>>(count, false));
          Array<float>& x = *arrays.back();
          for (std::size_t i = 0; i < count; ++i) x[i] = value(context.rank(), i);
          Result<Handle> handle =
              context.allreduce_start(in(x.data(), count), out(x.data(), count), ReduceOp::sum);
          ASSERT_TRUE(handle.ok()) << handle.status().to_string();
          handles.push_back(*std::move(handle));
        }
        while (!handles.empty()) {
          ASSERT_TRUE(handles.back().wait().ok());
          Array<float>& x = *arrays[handles.size() - 1];
          ASSERT_TRUE(
              holds(x.data(), x.size(), [](std::size_t i) { return value(0, i) + value(1, i); }));
          handles.pop_back();
        }
      },
      config);
}

TEST(Lanes, CallbacksRunOnceWhenAllPartsHaveEnded) {
  run_job(
      2,
      [](Context& context) {
        Array<float> x(kLarge, false);
        for (std::size_t i = 0; i < kLarge; ++i) x[i] = 1;
        Result<Handle> handle =
            context.allreduce_start(in(x.data(), kLarge), out(x.data(), kLarge), ReduceOp::sum);
        ASSERT_TRUE(handle.ok());
        std::atomic<int> calls{0};
        std::atomic<bool> is_whole{false};
        ASSERT_TRUE(handle
                        ->then([&](const Status& status) {
                          is_whole = status.ok() && holds(x.data(), kLarge, 2.0F);
                          ++calls;
                          calls.notify_all();
                        })
                        .ok());
        calls.wait(0);
        EXPECT_TRUE(is_whole);
        EXPECT_EQ(calls, 1);
      },
      with_lanes(3));
}

TEST(Lanes, FollowANewGraph) {
  run_job(
      3,
      [](Context& context) {
        Array<float> x(kLarge, false), y(kLarge, false);
        for (const RingStyle style : {RingStyle::next, RingStyle::previous, RingStyle::next}) {
          const Result<Graph> ring = ring_graph(context.size(), style);
          ASSERT_TRUE(ring.ok());
          ASSERT_TRUE(context.set_graph(*ring).ok());
          for (std::size_t i = 0; i < kLarge; ++i) x[i] = static_cast<float>(context.rank());
          ASSERT_TRUE(context.neighbor_allreduce(in(x.data(), kLarge), out(y.data(), kLarge)).ok());
          const int step = style == RingStyle::next ? 2 : 1;
          const Rank other = (context.rank() + step) % 3;
          ASSERT_TRUE(holds(y.data(), kLarge, static_cast<float>(context.rank() + other) / 2));
        }
      },
      with_lanes(2));
}

// Every rank learns the same once, whichever lane found it, and later calls give the same error.
TEST(Lanes, FailTogether) {
  const auto statuses = outcomes(
      3,
      [](Context& context) {
        Array<float> x(kLarge, false), y(kLarge, false);
        const ReduceOp op = context.rank() == 2 ? ReduceOp::max : ReduceOp::sum;
        const Status first = context.allreduce(in(x.data(), kLarge), out(y.data(), kLarge), op);
        const Status later = context.barrier();
        EXPECT_EQ(first.code(), later.code()) << later.to_string();
        return first;
      },
      with_lanes(2));
  for (const Status& status : statuses) expect_names(status, Code::mismatch, {"allreduce"});
}

TEST(Lanes, WaitNoLongerThanTheDeadline) {
  Config config = with_lanes(2);
  config.deadline_ms = 300;
  std::latch ended(1);
  const auto statuses = outcomes(
      2,
      [&ended](Context& context) {
        Array<float> x(kLarge, false), y(kLarge, false);
        const Status both = context.allreduce(in(x.data(), kLarge), out(y.data(), kLarge));
        if (!both.ok() || context.rank() == 1) {
          ended.wait();
          return both;
        }
        const Status alone = context.allreduce(in(x.data(), kLarge), out(y.data(), kLarge));
        ended.count_down();
        return alone;
      },
      config);
  EXPECT_TRUE(statuses[1].ok());
  expect_names(statuses[0], Code::timed_out, {"allreduce", "rank 1"});
}

TEST(Lanes, APeerThatLeavesIsNamed) {
  const auto statuses = outcomes(
      3,
      [](Context& context) {
        Array<float> x(kLarge, false), y(kLarge, false);
        const Status first = context.allreduce(in(x.data(), kLarge), out(y.data(), kLarge));
        if (!first.ok() || context.rank() == 1) return first;
        return context.allreduce(in(x.data(), kLarge), out(y.data(), kLarge));
      },
      with_lanes(2));
  EXPECT_TRUE(statuses[1].ok());
  expect_names(statuses[0], Code::peer_left, {"rank 1"});
  expect_names(statuses[2], Code::peer_left, {"rank 1"});
}

TEST(Lanes, OperationsInFlightEndWhenTheContextIsClosed) {
  const auto stores = make_local_stores(2);
  ASSERT_TRUE(stores.ok());
  std::vector<std::unique_ptr<Context>> contexts(2);
  std::vector<std::unique_ptr<Array<float>>> arrays;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    auto context = Context::create(with_lanes(3), (*stores)[rank]);
    ASSERT_TRUE(context.ok());
    contexts[rank] = *std::move(context);
    arrays.push_back(std::make_unique<Array<float>>(kLarge, false));
  }
  const auto start = [&](std::size_t rank) {
    float* x = arrays[rank]->data();
    return contexts[rank]->allreduce_start(in(x, kLarge), out(x, kLarge));
  };
  Result<Handle> first = start(0), other = start(1);
  ASSERT_TRUE(first.ok() && other.ok());
  ASSERT_TRUE(first->wait().ok() && other->wait().ok());
  Result<Handle> alone = start(0);
  ASSERT_TRUE(alone.ok());
  contexts[0].reset();
  EXPECT_EQ(alone->wait().code(), Code::closed);
}

std::vector<std::string> thread_names() {
  std::vector<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    names.push_back(name);
  }
  return names;
}

TEST(Lanes, AreThreadsWithNamesAndOnlyFromTheFirstLargeOperationOn) {
  run_job(
      2,
      [](Context& context) {
        Array<float> x(kLarge, false);
        ASSERT_TRUE(context.allreduce(in(x.data(), 1000), out(x.data(), 1000), ReduceOp::sum).ok());
        EXPECT_EQ(std::ranges::count(thread_names(), "weft-lane-1"), 0);
        ASSERT_TRUE(context.barrier().ok());
        ASSERT_TRUE(
            context.allreduce(in(x.data(), kLarge), out(x.data(), kLarge), ReduceOp::sum).ok());
        EXPECT_EQ(std::ranges::count(thread_names(), "weft-lane-1"), 2);
        ASSERT_TRUE(context.barrier().ok());
      },
      with_lanes(2));
}

TEST(Lanes, AreRowsOfTheTimeline) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("weft-lanes-" + std::to_string(getpid())))
          .string();
  Config config = with_lanes(2);
  config.trace = path + "-{rank}.json";
  run_job(
      2,
      [](Context& context) {
        Array<float> x(kLarge, false);
        ASSERT_TRUE(
            context.allreduce(in(x.data(), kLarge), out(x.data(), kLarge), ReduceOp::sum).ok());
      },
      config);
  for (const char* rank : {"-0.json", "-1.json"}) {
    std::ifstream file(path + rank);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(text.find("\"lane 1\""), std::string::npos);
    std::filesystem::remove(path + rank);
  }
}

TEST(Lanes, OfASplitContextAreItsOwn) {
  run_job(
      4,
      [](Context& context) {
        Result<std::unique_ptr<Context>> half = context.split(context.rank() % 2, context.rank());
        ASSERT_TRUE(half.ok());
        Array<float> x(kLarge, false);
        for (std::size_t i = 0; i < kLarge; ++i) x[i] = static_cast<float>(context.rank());
        ASSERT_TRUE(
            (*half)->allreduce(in(x.data(), kLarge), out(x.data(), kLarge), ReduceOp::sum).ok());
        ASSERT_TRUE(holds(x.data(), kLarge, context.rank() % 2 == 0 ? 2.0F : 4.0F));
        ASSERT_TRUE(
            context.allreduce(in(x.data(), kLarge), out(x.data(), kLarge), ReduceOp::sum).ok());
        ASSERT_TRUE(holds(x.data(), kLarge, 12.0F));
      },
      with_lanes(2));
}

}  // namespace
}  // namespace weft
