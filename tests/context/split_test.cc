// Splitting a context: who is with whom and as which rank, contexts that run side by side, and
// failures that stay where they happen.
#include <latch>

#include "tests/context/outcomes.h"

namespace weft {
namespace {

void expect_ok(const Status& status) {
  ASSERT_TRUE(status.ok()) << status.to_string();
}

// The sum over a context of what its ranks give.
float total(Context& context, float mine) {
  float sum = 0;
  expect_ok(context.allreduce(in(&mine, 1), out(&sum, 1), ReduceOp::sum));
  return sum;
}

TEST(Split, NumbersTheRanksOfAColorByKeyThenRank) {
  run_job(5, [](Context& context) {
    // Ranks 0, 2, 4 and 1, 3; the first color in reverse.
    const int color = context.rank() % 2;
    auto part = context.split(color, color == 0 ? -context.rank() : 0);
    ASSERT_TRUE(part.ok()) << part.status().to_string();
    ASSERT_NE(*part, nullptr);
    EXPECT_EQ((*part)->size(), color == 0 ? 3 : 2);
    EXPECT_EQ((*part)->rank(), color == 0 ? 2 - context.rank() / 2 : context.rank() / 2);
    const auto mine = static_cast<std::int32_t>(context.rank());
    Array<std::int32_t> all(static_cast<std::size_t>((*part)->size()), false);
    expect_ok((*part)->allgather(in(&mine, 1), out(all.data(), all.size())));
    for (std::size_t i = 1; i < all.size(); ++i)
      EXPECT_EQ(all[i] - all[i - 1], color == 0 ? -2 : 2);
  });
}

TEST(Split, RanksWithoutAColorGetNoContext) {
  run_job(3, [](Context& context) {
    auto part = context.split(context.rank() == 1 ? kNoColor : 7);
    ASSERT_TRUE(part.ok());
    EXPECT_EQ(*part == nullptr, context.rank() == 1);
    if (*part != nullptr) {
      EXPECT_FLOAT_EQ(total(**part, 1), 2);
    }
    EXPECT_FLOAT_EQ(total(context, 1), 3);
  });
}

TEST(Split, PartsRunSideBySideWithTheWhole) {
  run_job(4, [](Context& context) {
    auto part = context.split(context.rank() / 2);
    ASSERT_TRUE(part.ok());
    for (int round = 0; round < 50; ++round) {
      Array<float> x(20'000, round % 2 == 0), y(20'000, false), z(20'000, false);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(context.rank() + round);
      auto here = (*part)->allreduce_start(in(x.data(), x.size()), out(y.data(), y.size()));
      auto whole = context.allreduce_start(in(x.data(), x.size()), out(z.data(), z.size()));
      ASSERT_TRUE(here.ok() && whole.ok());
      // The parts make different numbers of operations.
      for (int k = 0; k < context.rank() / 2; ++k) expect_ok((*part)->barrier());
      expect_ok(whole->wait());
      expect_ok(here->wait());
      const float first = static_cast<float>(context.rank() / 2 * 2);
      EXPECT_FLOAT_EQ(y[19'999], first + 0.5F + static_cast<float>(round));
      EXPECT_FLOAT_EQ(z[19'999], 1.5F + static_cast<float>(round));
    }
  });
}

TEST(Split, OfSplitsAndManyTimes) {
  run_job(4, [](Context& context) {
    for (int round = 0; round < 3; ++round) {
      auto half = context.split(context.rank() / 2);
      ASSERT_TRUE(half.ok());
      auto alone = (*half)->split((*half)->rank());
      auto turned = (*half)->split(0, -(*half)->rank());
      ASSERT_TRUE(alone.ok() && turned.ok());
      EXPECT_EQ((*alone)->size(), 1);
      EXPECT_EQ((*turned)->rank(), 1 - (*half)->rank());
      EXPECT_FLOAT_EQ(total(**alone, 5), 5);
      EXPECT_FLOAT_EQ(total(**turned, static_cast<float>(context.rank())),
                      context.rank() < 2 ? 1 : 5);
      // A send's rank is that of the context it is called on.
      float got = -1, mine = static_cast<float>(context.rank());
      if ((*turned)->rank() == 0) {
        expect_ok((*turned)->send(in(&mine, 1), 1));
      } else {
        expect_ok((*turned)->recv(out(&got, 1), 0));
        EXPECT_FLOAT_EQ(got, static_cast<float>(context.rank() + 1));
      }
    }
  });
}

TEST(Split, OutlivesItsParent) {
  auto stores = make_local_stores(2);
  ASSERT_TRUE(stores.ok());
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      auto whole = Context::create(test_config(), (*stores)[rank]);
      ASSERT_TRUE(whole.ok());
      auto part = (*whole)->split(0);
      ASSERT_TRUE(part.ok());
      whole->reset();
      EXPECT_FLOAT_EQ(total(**part, 2), 4);
    });
  }
  for (std::thread& thread : ranks) thread.join();
}

TEST(Split, AFailureStaysInItsPart) {
  const auto statuses = outcomes(4, [](Context& context) {
    auto part = context.split(context.rank() / 2);
    WEFT_RETURN_IF_ERROR(part.status());
    float x[2] = {1, 1}, y[2] = {};
    // In the first part the sizes differ.
    const std::size_t count = context.rank() == 0 ? 1 : 2;
    const Status status = (*part)->allreduce(in(x, count), out(y, count));
    EXPECT_EQ(status.ok(), context.rank() >= 2) << status.to_string();
    return context.barrier();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
}

// Rank 3's store goes without a goodbye. Its fellow in the part learns that, under the part's
// numbers; the other part goes on, though the whole is broken there too.
TEST(Split, ADeathConcernsOnlyThePartsOfTheRank) {
  auto stores = make_local_stores(4);
  ASSERT_TRUE(stores.ok());
  std::latch summed(4), died(1), done(3);
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      std::shared_ptr<Store>& store = (*stores)[rank];
      auto whole = Context::create(test_config(), store);
      ASSERT_TRUE(whole.ok());
      auto part = (*whole)->split(static_cast<int>(rank) / 2);
      ASSERT_TRUE(part.ok());
      EXPECT_FLOAT_EQ(total(**part, 1), 2);
      summed.arrive_and_wait();
      if (rank == 3) {
        part->reset();
        whole->reset();
        store.reset();
        died.count_down();
        return;
      }
      died.wait();
      float x = 1, y = 0;
      const Status here = (*part)->allreduce(in(&x, 1), out(&y, 1));
      if (rank == 2) {
        expect_names(here, Code::peer_died, {"rank 1 died"});
      } else {
        expect_ok(here);
        expect_names((*whole)->allreduce(in(&x, 1), out(&y, 1)), Code::peer_died, {"rank 3 died"});
      }
      done.arrive_and_wait();
    });
  }
  for (std::thread& thread : ranks) thread.join();
}

// Control blocks and rings of a context that has ended serve later ones. The first few rounds make
// what is kept: as many as are in use at once, while a rank is ahead of another.
TEST(Split, AndCloseKeepsNothing) {
  constexpr int kRounds = 100;
  constexpr std::size_t kMost =
      64 << 10;  // less than a control block of 8 KiB for every tenth context
  std::size_t before = 0;
  run_job(2, [&](Context& context) {
    const auto rounds = [&](int count) {
      for (int round = 0; round < count; ++round) {
        auto part = context.split(0);
        ASSERT_TRUE(part.ok());
        EXPECT_FLOAT_EQ(total(**part, 1), 2);
      }
      expect_ok(context.barrier());
    };
    rounds(10);
    if (context.rank() == 0) before = heap_usage().allocated_bytes;
    rounds(kRounds);
    if (context.rank() == 0) {
      EXPECT_LT(heap_usage().allocated_bytes, before + kMost);
    }
    expect_ok(context.barrier());
  });
}

TEST(Split, WithoutARankEndsByTheDeadline) {
  Config config = test_config();
  config.deadline_ms = 300;
  std::latch over(1);
  const auto statuses = outcomes(
      2,
      [&](Context& context) {
        if (context.rank() == 1) {
          over.wait();
          return Status{};
        }
        const Status status = context.split(0).status();
        over.count_down();
        return status;
      },
      config);
  expect_names(statuses[0], Code::timed_out, {"rank 1"});
}

}  // namespace
}  // namespace weft
