// Partial all-reduce: groups average exactly, the sum of all models stays, nobody waits for a slow worker, and
// one that leaves is in no later group.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <mutex>
#include <numeric>
#include <set>

#include "engine/algorithms/algorithms.h"
#include "tests/base/sanitized.h"
#include "tests/window/window_job.h"

namespace weft {
namespace {

constexpr std::size_t kCount = 3000;

// A worker whose model has one value everywhere.
struct Worker {
  Worker(Context& context, double value, const PartialAllreduceOptions& options,
         std::size_t count = kCount)
      : x(count, true) {
    for (std::size_t i = 0; i < count; ++i) x[i] = value;
    Result<PartialAllreduce> made =
        PartialAllreduce::create(context, out(x.data(), count), options);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) partial.emplace(*std::move(made));
  }
  PartialAllreduce* operator->() { return &*partial; }
  std::vector<Rank> average() {
    Result<std::vector<Rank>> group = partial->average();
    EXPECT_TRUE(group.ok()) << group.status().to_string();
    return group.ok() ? *std::move(group) : std::vector<Rank>();
  }

  Array<double> x;
  std::optional<PartialAllreduce> partial;
};

// A worker computes: it takes this long, however many threads the machine runs.
void compute(std::int64_t ms) {
  const std::int64_t end = now_ns() + ms * 1'000'000;
  while (now_ns() < end) std::this_thread::yield();
}

class PartialAllreduceTest : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, PartialAllreduceTest, kBothWays, name_of);

TEST_P(PartialAllreduceTest, RanksAgreeAndTheSumStays) {
  for (const std::string law : {"smart", "smart:2", "random", "random:4", "pairs", "static"}) {
    run(5, [&](Context& context) {
      Worker worker(context, context.rank(), {.law = law});
      ASSERT_TRUE(worker.partial) << law;
      for (int each = 0; each < 40; ++each) {
        const std::vector<Rank> group = worker.average();
        EXPECT_TRUE(std::ranges::binary_search(group, context.rank()));
      }
      expect_ok(worker->end());
      EXPECT_TRUE(holds(worker.x.data(), kCount, 2.0, 0.5)) << law;
      EXPECT_TRUE(holds(worker.x.data(), kCount, worker.x[0])) << law;
      double sum = 0;
      expect_ok(context.allreduce(in(&worker.x[0], 1), out(&sum, 1), ReduceOp::sum));
      EXPECT_NEAR(sum, 10, 1e-9) << law;
    });
  }
}

// Each rank has a bit of its own, so that a mean shows whose models are in it.
TEST_P(PartialAllreduceTest, AGroupHasTheMeanOfItsMembers) {
  run(6, [&](Context& context) {
    Worker worker(context, 1 << context.rank(), {.law = "smart:2"});
    ASSERT_TRUE(worker.partial);
    const std::vector<Rank> group = worker.average();
    double sum = 0;
    for (const Rank rank : group) sum += 1 << rank;
    EXPECT_TRUE(holds(worker.x.data(), kCount, sum / static_cast<double>(group.size())));
    expect_ok(worker->end());
  });
}

TEST(PartialAllreduce, AnIterationCostsOneMessageInEachDirection) {
  run_job(4, [](Context& context) {
    Worker worker(context, context.rank(), {});
    ASSERT_TRUE(worker.partial);
    expect_ok(worker->begin());
    for (int each = 0; each < 50; ++each) worker.average();
    const PartialAllreduce::Usage usage = worker->usage();
    EXPECT_EQ(usage.messages_sent, 51);  // one more is for the next group
    EXPECT_EQ(usage.messages_received, 50);
    EXPECT_LE(usage.groups, 50);
    EXPECT_EQ(usage.successions, 0);
    expect_ok(worker->end());
  });
}

TEST(PartialAllreduce, ASectionAveragesInItsLastIteration) {
  run_job(3, [](Context& context) {
    Worker worker(context, context.rank(), {.section = 4});
    ASSERT_TRUE(worker.partial);
    for (int each = 1; each <= 12; ++each) {
      expect_ok(worker->begin());
      EXPECT_EQ(worker.average().empty(), each % 4 != 0) << each;
    }
    EXPECT_EQ(worker->usage().groups, 3);
    expect_ok(worker->end());
  });
}

TEST(PartialAllreduce, RanksMayTakeDifferentNumbersOfIterations) {
  for (const std::string law : {"smart", "random"}) {
    run_job(5, [&](Context& context) {
      Worker worker(context, context.rank(), {.law = law});
      ASSERT_TRUE(worker.partial);
      for (int each = 0; each < 10 * context.rank(); ++each) worker.average();
      expect_ok(worker->end());
      double sum = 0;
      expect_ok(context.allreduce(in(&worker.x[0], 1), out(&sum, 1), ReduceOp::sum));
      EXPECT_NEAR(sum, 10, 1e-9);
    });
  }
}

// Of four workers nearly every group of three has each of them, unless it has left.
TEST(PartialAllreduce, AWorkerThatLeavesIsInNoLaterGroup) {
  constexpr int kGroups = 20;
  run_job(4, [&](Context& context) {
    Worker worker(context, context.rank(), {.law = "random"});
    ASSERT_TRUE(worker.partial);
    int without = 0, groups = 0;
    if (context.rank() == 3) {
      worker.average();
      without = kGroups;
    }
    while (without < kGroups && groups++ < 2000)
      without = std::ranges::binary_search(worker.average(), 3) ? 0 : without + 1;
    EXPECT_EQ(without, kGroups);
    expect_ok(worker->end());
  });
}

// Once a worker is known to be slow, the others end iterations while it computes one. It computes until all of them have,
// so that no other speed of the machine matters than that of the slow worker beside the others.
TEST(PartialAllreduce, NobodyWaitsForASlowWorker) {
  constexpr Rank kSlow = 3;
  constexpr int kEnough = 5, kMost = 400;
  std::atomic<int> iteration = 0, done = 0;
  run_job(4, [&](Context& context) {
    Worker worker(context, context.rank(), {});
    ASSERT_TRUE(worker.partial);
    if (context.rank() == kSlow) {
      while (done < 3 && iteration < kMost) {
        compute(20);
        ++iteration;
        worker.average();
      }
    } else {
      int without = 0;
      for (int each = 0; without < kEnough && each < kMost; ++each) {
        const int before = iteration;
        const bool has_slow = std::ranges::binary_search(worker.average(), kSlow);
        without += !has_slow && iteration == before ? 1 : 0;
      }
      EXPECT_EQ(without, kEnough);
      ++done;
    }
    expect_ok(worker->end());
  });
}

// The generator needs no call of its rank. One of the two pairs is without rank 0.
TEST(PartialAllreduce, TheGeneratorServesWhileItsRankComputes) {
  std::latch has_averaged(2);
  run_job(4, [&](Context& context) {
    Worker worker(context, context.rank(), {.law = "smart:2"});
    ASSERT_TRUE(worker.partial);
    if (context.rank() == 0) {
      has_averaged.wait();
    } else if (worker.average().front() != 0) {
      has_averaged.count_down();
    }
    expect_ok(worker->end());
  });
}

TEST(PartialAllreduce, DoesNotStandInTheWayOfTheContext) {
  run_job(4, [](Context& context) {
    Worker worker(context, context.rank(), {});
    ASSERT_TRUE(worker.partial);
    double one = 1, sum = 0;
    Result<Handle> other = context.allreduce_start(in(&one, 1), out(&sum, 1), ReduceOp::sum);
    ASSERT_TRUE(other.ok());
    for (int each = 0; each < 20; ++each) worker.average();
    expect_ok(other->wait());
    EXPECT_EQ(sum, 4);
    for (int each = 0; each < 20; ++each) worker.average();
    expect_ok(worker->end());
  });
}

// As if it had died: the others go on.
TEST_P(PartialAllreduceTest, WithoutEndARankHasLeftTheOthers) {
  for (const auto& [law, gone] : std::vector<std::pair<std::string, Rank>>{
           {"random", 0}, {"random", 2}, {"static", 0}, {"static", 2}}) {
    run(4, [&](Context& context) {
      Worker worker(context, context.rank(), {.law = law});
      ASSERT_TRUE(worker.partial);
      for (int each = 0; each < 5; ++each) worker.average();
      if (context.rank() == gone) {
        worker.partial.reset();
      } else {
        for (int each = 0; each < 30; ++each) worker.average();
        EXPECT_FALSE(std::ranges::binary_search(worker.average(), gone));
        EXPECT_EQ(worker->usage().successions, 1);
        expect_ok(worker->end());
      }
      expect_ok(context.barrier());
    });
  }
}

TEST(PartialAllreduce, ARankAloneAveragesWithNobody) {
  for (const std::string law : {"smart", "random", "static"}) {
    run_job(1, [&](Context& context) {
      Worker worker(context, 7, {.law = law});
      ASSERT_TRUE(worker.partial);
      EXPECT_EQ(worker.average(), std::vector<Rank>{0});
      EXPECT_EQ(worker.x[0], 7);
      expect_ok(worker->end());
    });
  }
}

TEST(PartialAllreduce, AModelMayBeEmpty) {
  run_job(3, [](Context& context) {
    Worker worker(context, 0, {}, 0);
    ASSERT_TRUE(worker.partial);
    for (int each = 0; each < 5; ++each) worker.average();
    expect_ok(worker->end());
  });
}

// Groups need no communicators or other state of their own.
TEST(PartialAllreduceBounds, TenThousandDifferentGroupsGrowNothing) {
  constexpr int kRanks = 20;  // of which 125,970 groups of 8 can be drawn
  constexpr int kIterations = searched(600, 60);
  std::set<std::vector<Rank>> groups;
  std::mutex mutex;
  run_job(kRanks, [&](Context& context) {
    Worker worker(context, context.rank(), {.law = "random:8"}, 64);
    ASSERT_TRUE(worker.partial);
    std::size_t before = 0;
    for (int each = 0; each < kIterations; ++each) {
      const std::vector<Rank> group = worker.average();
      const std::lock_guard lock(mutex);
      groups.insert(group);
      if (each == kIterations / 10) before = mallinfo2().uordblks;
    }
    const std::size_t after = mallinfo2().uordblks;
    // The set of groups above grows.
    const std::size_t of_the_test = kRanks * kIterations * 200;
    EXPECT_LT(after, before + of_the_test + (std::size_t{1} << 20));
    expect_ok(worker->end());
  });
  EXPECT_GT(groups.size(), searched(10'000, 1'000));
}

TEST(PartialAllreduceErrors, NameWhatIsWrong) {
  run_job(2, [](Context& context) {
    double x = 0;
    std::int32_t number = 0;
    const auto text = [&](const PartialAllreduceOptions& options) {
      return std::string(PartialAllreduce::create(context, out(&x, 1), options).status().text());
    };
    EXPECT_NE(text({.law = "greedy"}).find("unknown law of groups 'greedy'"), std::string::npos);
    EXPECT_NE(text({.law = "smart:1"}), "");
    EXPECT_NE(text({.threshold = 1}), "");
    EXPECT_EQ(
        text({.section = 0}),
        "partial all-reduce \"partial_allreduce\": a section of 0 iterations has less than 1");
    EXPECT_EQ(PartialAllreduce::create(context, out(&number, 1)).status().text(),
              "partial all-reduce \"partial_allreduce\": a model of i32 cannot be averaged");
  });
}

// In every iteration of a section.
TEST(PartialAllreduceErrors, AfterTheEndItIsClosed) {
  run_job(2, [](Context& context) {
    for (const std::string law : {"smart", "static"}) {
      for (const int section : {1, 3}) {
        Worker worker(context, 0, {.law = law, .section = section});
        ASSERT_TRUE(worker.partial);
        expect_ok(worker->end());
        for (const Status& status : {worker->begin(), worker->average().status()}) {
          EXPECT_EQ(status.code(), Code::closed);
          EXPECT_EQ(status.text(), "partial all-reduce \"partial_allreduce\": has ended");
        }
        expect_ok(worker->end());
      }
    }
  });
}

// Whether its arguments are other ones or wrong: no rank waits for another one.
TEST(PartialAllreduceErrors, AllRanksSayWhatIsWrongWithOne) {
  run_job(3, [](Context& context) {
    const bool differs = context.rank() == 2;
    double x[2] = {};
    const auto text = [&](const PartialAllreduceOptions& options, std::size_t count = 1) {
      const Status status = PartialAllreduce::create(context, out(x, count), options).status();
      EXPECT_EQ(status.code(), Code::mismatch);
      EXPECT_EQ(status.rank(), 2);
      return std::string(status.text());
    };
    const std::string title =
        "partial all-reduce \"partial_allreduce\": ranks 0 and 2 disagree: law ";
    EXPECT_EQ(text({.seed = differs ? 5U : 6U}),
              title +
                  "smart:3, threshold 2, section 1, seed 6, 1 elements of f64 and "
                  "law smart:3, threshold 2, section 1, seed 5, 1 elements of f64");
    EXPECT_TRUE(text({.law = differs ? "smart:4" : "smart:3"}).starts_with(title + "smart:3, "));
    EXPECT_TRUE(text({.threshold = differs ? 3 : 2}).starts_with(title));
    EXPECT_TRUE(text({.section = differs ? 3 : 2}).starts_with(title));
    EXPECT_TRUE(text({}, differs ? 2 : 1).starts_with(title));
    const auto wrong = [&](const Output& model, const PartialAllreduceOptions& options) {
      const Status status = PartialAllreduce::create(context, model, options).status();
      EXPECT_EQ(status.code(), Code::invalid_argument);
      EXPECT_EQ(status.text().starts_with("rank 2: "), !differs) << status.text();
    };
    wrong(out(x, 1), {.law = differs ? "greedy" : "smart"});
    wrong(out(x, 1), {.section = differs ? 0 : 1});
    wrong(out(differs ? nullptr : x, 1), {});
    wrong({x, differs ? ~std::size_t{0} : 1, DataType::f64}, {});
    // The next one of equal ranks is well.
    Worker worker(context, 0, {});
    ASSERT_TRUE(worker.partial);
    worker.average();
    expect_ok(worker->end());
  });
}

}  // namespace
}  // namespace weft
