// What put, accumulate, get and update do, against their definitions.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "tests/context/outcomes.h"
#include "tests/window/window_job.h"

namespace weft {
namespace {

class WindowMeaning : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, WindowMeaning, kBothWays, name_of);

constexpr std::size_t kCount = 3000;

TEST_P(WindowMeaning, PutFillsTheSlotsOfOutNeighbors) {
  run(4, [](Context& context) {
    const Rank rank = context.rank();
    ASSERT_TRUE(context.set_graph(*ring_graph(4, RingStyle::next)).ok());
    Owned own(context, kCount, rank, "w", {.zero_init = true});
    expect_ok(own.window.put(own.tensor()));
    expect_ok(context.barrier());
    expect_ok(own.window.update());
    EXPECT_TRUE(holds(own.x.data(), kCount, (rank + (rank + 3) % 4) / 2.0));
    expect_ok(context.win_free("w"));
  });
}

TEST_P(WindowMeaning, SlotsBeginAsTheTensorOrAsZeros) {
  run(2, [](Context& context) {
    for (const bool zero : {false, true}) {
      Owned own(context, kCount, 4.0, "w", {.zero_init = zero});
      expect_ok(own.window.update());
      EXPECT_TRUE(holds(own.x.data(), kCount, zero ? 2.0 : 4.0));
      expect_ok(context.win_free("w"));
    }
  });
}

TEST_P(WindowMeaning, WeightsScaleWhatIsSentAndWhatIsKept) {
  run(3, [](Context& context) {
    const Rank rank = context.rank();
    ASSERT_TRUE(context.set_graph(*fully_connected_graph(3)).ok());
    Owned own(context, kCount, 1.0 + rank, "w", {.zero_init = true});
    const Rank to = (rank + 1) % 3;
    const NeighborWeight half[] = {{to, 0.5}};
    expect_ok(own.window.put(own.tensor(), {.self_weight = 0.25, .destinations = half}));
    EXPECT_TRUE(holds(own.x.data(), kCount, (1.0 + rank) / 4));
    expect_ok(context.barrier());
    expect_ok(own.window.update_then_collect());
    const Rank from = (rank + 2) % 3;
    EXPECT_TRUE(holds(own.x.data(), kCount, (1.0 + rank) / 4 + (1.0 + from) / 2));
    expect_ok(context.win_free("w"));
  });
}

TEST_P(WindowMeaning, AccumulatesAddUpUntilTheyAreCollected) {
  run(2, [](Context& context) {
    Owned own(context, kCount, 1.0, "w", {.zero_init = true});
    Array<double> x(kCount, true);
    for (int round = 1; round <= 5; ++round) {
      for (int each = 1; each <= 3; ++each) {
        for (std::size_t i = 0; i < kCount; ++i) x[i] = round * each;
        expect_ok(own.window.accumulate(out(x.data(), kCount)));
      }
      expect_ok(context.barrier());
      const double before = own.x[0];
      expect_ok(own.window.update_then_collect());
      EXPECT_TRUE(holds(own.x.data(), kCount, before + 6.0 * round));
      expect_ok(own.window.update_then_collect());  // there is nothing more
      EXPECT_TRUE(holds(own.x.data(), kCount, before + 6.0 * round));
      expect_ok(context.barrier());
    }
    expect_ok(context.win_free("w"));
  });
}

TEST_P(WindowMeaning, AccumulateAddsToWhatWasPut) {
  run(2, [](Context& context) {
    Owned own(context, kCount, 0.0, "w", {.zero_init = true});
    Array<double> x(kCount, false);
    const auto fill = [&](double value) {
      for (std::size_t i = 0; i < kCount; ++i) x[i] = value;
      return out(x.data(), kCount);
    };
    const NeighborWeight twice[] = {{1 - context.rank(), 2.0}};
    expect_ok(own.window.put(fill(5), {.destinations = twice}));
    expect_ok(own.window.accumulate(fill(3)));
    expect_ok(context.barrier());
    expect_ok(own.window.update_then_collect());
    EXPECT_TRUE(holds(own.x.data(), kCount, 13.0));
    expect_ok(context.barrier());
    expect_ok(own.window.accumulate(fill(1)));
    expect_ok(context.barrier());
    expect_ok(own.window.update_then_collect());
    EXPECT_TRUE(holds(own.x.data(), kCount, 14.0));
    expect_ok(context.barrier());
    expect_ok(own.window.put(fill(7)));
    expect_ok(context.barrier());
    expect_ok(own.window.update_then_collect());
    EXPECT_TRUE(holds(own.x.data(), kCount, 21.0));
    expect_ok(context.win_free("w"));
  });
}

// What a slot has is what was decoded. Sums lose no more than their last message does, however many there are.
TEST_P(WindowMeaning, CompressedPutsAndAccumulates) {
  run(2, [](Context& context) {
    std::vector<float> own(kCount), x(kCount), got(kCount), sent(kCount);
    const Result<Window> made =
        context.win_create(out(own.data(), kCount), "w", {.zero_init = true});
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    Window window = *made;
    for (const Compression each :
         {Compression::f16, Compression::bf16, Compression::sketch, Compression::e4m3}) {
      const auto error = [&](const std::vector<float>& wanted) {
        double squares = 0;
        for (std::size_t i = 0; i < kCount; ++i) squares += std::pow(own[i] - wanted[i], 2);
        return std::sqrt(squares / static_cast<double>(kCount));
      };
      const auto collect = [&] {
        expect_ok(context.barrier());
        expect_ok(window.update_then_collect());
        expect_ok(context.barrier());
      };
      for (std::size_t i = 0; i < kCount; ++i) x[i] = std::sin(static_cast<float>(i * i));
      std::ranges::fill(own, 0.0F);
      const NeighborWeight twice[] = {{1 - context.rank(), 2.0}};
      expect_ok(window.put(out(x.data(), kCount), {.destinations = twice, .compression = each}));
      expect_ok(window.accumulate(out(x.data(), kCount), {.compression = each}));
      collect();
      for (std::size_t i = 0; i < kCount; ++i) sent[i] = 3 * x[i];
      const double of_one = error(sent);
      EXPECT_LT(of_one, 0.08) << name(each);
      EXPECT_GT(of_one, 0.0) << name(each) << " loses nothing";

      std::ranges::fill(own, 0.0F);
      std::ranges::fill(sent, 0.0F);
      for (int step = 0; step < 60; ++step) {
        expect_ok(window.accumulate(out(x.data(), kCount), {.compression = each}));
        for (std::size_t i = 0; i < kCount; ++i) sent[i] += x[i];
        if (step % 2 == 1) collect();
      }
      EXPECT_LT(error(sent), 3 * of_one) << name(each);
    }
    std::vector<float> few(8, 3.0F);  // which are smaller as they are
    ASSERT_TRUE(context.win_free("w").ok());
    const Result<Window> small = context.win_create(out(few.data(), few.size()), "few");
    ASSERT_TRUE(small.ok());
    window = *small;
    expect_ok(window.put(out(few.data(), few.size()), {.compression = Compression::sketch}));
    expect_ok(context.barrier());
    expect_ok(window.update());
    EXPECT_TRUE(holds(few.data(), few.size(), 3.0F));
    expect_ok(context.win_free("few"));
  });
}

// Without reset a slot stays as it is, however often it is read.
TEST_P(WindowMeaning, SlotsStayWithoutReset) {
  run(2, [](Context& context) {
    Owned own(context, kCount, 1.0, "w", {.zero_init = true});
    Array<double> x(kCount, false);
    for (std::size_t i = 0; i < kCount; ++i) x[i] = 8.0;
    Array<double> y(kCount, false);
    const NeighborWeight whole[] = {{1 - context.rank(), 1.0}};
    const auto read = [&] {
      expect_ok(own.window.update(
          {.self_weight = 0.0, .sources = whole, .clone = out(y.data(), kCount)}));
      return y[kCount - 1];
    };
    double want = 0;
    for (int each = 0; each < 6; ++each) {
      expect_ok(own.window.accumulate(out(x.data(), kCount)));
      expect_ok(context.barrier());
      want += 8.0;
      EXPECT_EQ(read(), want);
      EXPECT_EQ(read(), want);
      expect_ok(context.barrier());
    }
    EXPECT_TRUE(holds(own.x.data(), kCount, 1.0));
    expect_ok(context.win_free("w"));
  });
}

TEST_P(WindowMeaning, GetReadsTheTensorOfInNeighbors) {
  run(3, [](Context& context) {
    const Rank rank = context.rank();
    ASSERT_TRUE(context.set_graph(*ring_graph(3, RingStyle::next)).ok());
    Owned own(context, kCount, 10.0 + rank, "w", {.zero_init = true});
    expect_ok(context.barrier());
    const Rank from = (rank + 2) % 3;
    const NeighborWeight twice[] = {{from, 2.0}};
    expect_ok(own.window.get({.sources = twice}));
    expect_ok(context.barrier());
    expect_ok(own.window.update_then_collect());
    EXPECT_TRUE(holds(own.x.data(), kCount, 10.0 + rank + 2 * (10.0 + from)));
    // A put replaces what was got, an accumulate adds to it.
    expect_ok(context.barrier());
    expect_ok(own.window.get());
    expect_ok(context.barrier());
    const double got = 10.0 + from + 2 * (10.0 + (rank + 1) % 3);
    for (std::size_t i = 0; i < kCount; ++i) own.x[i] = 1.0;
    expect_ok(own.window.accumulate(own.tensor()));
    expect_ok(context.barrier());
    expect_ok(own.window.update_then_collect());
    EXPECT_TRUE(holds(own.x.data(), kCount, 2.0 + got));
    expect_ok(context.win_free("w"));
  });
}

TEST_P(WindowMeaning, VersionsCountPutsAndGets) {
  run(2, [](Context& context) {
    Owned own(context, 16, 1.0);
    const auto version = [&] { return own.window.versions().value().front(); };
    EXPECT_EQ(version(), 0U);
    expect_ok(context.barrier());
    expect_ok(own.window.put(own.tensor()));
    expect_ok(own.window.put(own.tensor()));
    expect_ok(own.window.accumulate(own.tensor()));
    expect_ok(context.barrier());
    EXPECT_EQ(version(), 2U);
    expect_ok(own.window.get());
    EXPECT_EQ(version(), 3U);
    expect_ok(own.window.get());
    EXPECT_EQ(version(), 4U);
    expect_ok(own.window.update());
    EXPECT_EQ(version(), 0U);
    expect_ok(context.win_free("w"));
  });
}

// BlueFog's push-sum consensus (Listing 3): x / p goes to the mean on every rank.
TEST_P(WindowMeaning, PushSumGoesToTheMean) {
  constexpr int kRanks = 4;
  run(kRanks, [](Context& context) {
    const Rank rank = context.rank();
    Owned own(context, kCount, rank, "w", {.zero_init = true});
    expect_ok(own.window.set_associated_p(true));
    expect_ok(context.barrier());
    const auto out_ranks = own.window.out_neighbors();
    const double share = 1.0 / (static_cast<double>(out_ranks.size()) + 1);
    std::vector<NeighborWeight> to;
    for (const Rank each : out_ranks) to.push_back({each, share});
    for (int step = 0; step < 400; ++step) {
      // Ranks that ran one after the other would not mix.
      if (step % 5 == 0) expect_ok(context.barrier());
      expect_ok(own.window.accumulate(own.tensor(), {.self_weight = share, .destinations = to}));
      expect_ok(own.window.update_then_collect());
    }
    expect_ok(context.barrier());
    expect_ok(own.window.update_then_collect());
    const double p = own.window.associated_p().value();
    EXPECT_TRUE(holds(own.x.data(), kCount, 1.5 * p, 1e-9));
    double sum[2] = {own.x[0], p};
    expect_ok(context.allreduce(in(sum, 2), out(sum, 2), ReduceOp::sum));
    EXPECT_NEAR(sum[0], 6.0, 1e-9);
    EXPECT_NEAR(sum[1], kRanks, 1e-9);
    expect_ok(context.win_free("w"));
  });
}

TEST_P(WindowMeaning, MutexExcludes) {
  constexpr int kTimes = 50;
  run(3, [](Context& context) {
    ASSERT_TRUE(context.set_graph(*fully_connected_graph(3)).ok());
    Owned own(context, 4, 0.0, "w", {.zero_init = true});
    expect_ok(context.barrier());
    // All ranks add 1 to a number of rank 0, which nothing but the mutex makes whole.
    const Rank owner[] = {0};
    for (int time = 0; time < kTimes; ++time) {
      expect_ok(own.window.lock(owner));
      if (context.rank() == 0) {
        own.x[0] += 1;
      } else {
        double number = 0;
        const WindowPage page{};
        expect_ok(own.window.read(0, out(&number, 1)));
        number += 1;
        expect_ok(own.window.write(0, in(&number, 1), std::span(&page, 1), sizeof number));
      }
      expect_ok(own.window.unlock());
    }
    expect_ok(context.barrier());
    if (context.rank() == 0) {
      EXPECT_EQ(own.x[0], 3 * kTimes);
    }
    expect_ok(context.win_free("w"));
  });
}

TEST_P(WindowMeaning, RequiredMutexesAreTakenAndGivenBack) {
  run(3, [](Context& context) {
    ASSERT_TRUE(context.set_graph(*fully_connected_graph(3)).ok());
    Owned own(context, kCount, 1.0, "w", {.zero_init = true});
    for (int time = 0; time < 10; ++time) {
      expect_ok(own.window.put(own.tensor(), {.require_mutex = true}));
      expect_ok(own.window.get({.require_mutex = true}));
      expect_ok(own.window.update({.require_mutex = true}));
    }
    EXPECT_TRUE(holds(own.x.data(), kCount, 1.0, 1e-12));
    expect_ok(context.win_free("w"));
  });
}

TEST_P(WindowMeaning, SignalsSayThatBytesAreThere) {
  constexpr std::size_t kPage = 1024;
  constexpr std::size_t kPages = 64;
  run(2, [](Context& context) {
    const Rank other = 1 - context.rank();
    Owned own(context, kPage / sizeof(double) * kPages, 0.0);
    Array<double> x(own.x.size(), false);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
    std::vector<WindowPage> pages;  // in the opposite order
    for (std::size_t page = 0; page < kPages; ++page)
      pages.push_back({page * kPage, (kPages - 1 - page) * kPage});
    for (std::uint64_t round = 1; round <= 3; ++round) {
      expect_ok(own.window.write(other, in(x.data(), x.size()), pages, kPage, 5));
      expect_ok(own.window.wait_signal(5, round));
      constexpr std::size_t kEach = kPage / sizeof(double);
      EXPECT_TRUE(holds(own.x.data(), own.x.size(), [&](std::size_t i) {
        return static_cast<double>((kPages - 1 - i / kEach) * kEach + i % kEach);
      }));
      expect_ok(context.barrier());
    }
    EXPECT_EQ(own.window.signal(5).value(), 3U);
    EXPECT_EQ(own.window.signal(3).value(), 0U);
    std::atomic<bool> called = false;
    Result<Handle> raised = own.window.wait_signal_start(4, 1);
    ASSERT_TRUE(raised.ok()) << raised.status().to_string();
    expect_ok(raised->then([&](const Status& status) { called = status.ok(); }));
    expect_ok(own.window.put(own.tensor(), {.signal = 4}));
    expect_ok(raised->wait());
    const Deadline end = Deadline::after_ms(10'000);
    while (!called && !end.passed()) std::this_thread::yield();
    EXPECT_TRUE(called);
    expect_names(own.window.wait_signal(4, 9, 1'000), Code::timed_out, {"\"w\"", "signal 4", "9"});
    expect_ok(context.win_free("w"));
  });
}

TEST_P(WindowMeaning, ExplainSaysHowPutsReachTheOutNeighbors) {
  run(2, [](Context& context) {
    const Owned w(context, 3, 1.0, "model");
    const std::string text = context.explain();
    const std::string rank = context.rank() == 0 ? "1" : "0";
    const std::string begin = "window \"model\": 3 x f64; puts to " + rank + ": ";
    const std::size_t at = text.find(begin);
    ASSERT_NE(at, std::string::npos) << text;
    const std::size_t end = text.find('\n', at);
    const std::string way = text.substr(at + begin.size(), end - at - begin.size());
    EXPECT_FALSE(way.empty());
    EXPECT_FALSE(GetParam() == Ways::network && way == "mapped") << text;
  });
}

TEST_P(WindowMeaning, StartedWorksEndInTheOrderOfTheirCalls) {
  run(2, [](Context& context) {
    Owned own(context, kCount, 1.0, "w", {.zero_init = true});
    std::vector<Handle> handles;
    for (int each = 0; each < 20; ++each) {
      Result<Handle> handle = own.window.put_start(own.tensor(), {.self_weight = 2.0});
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      handles.push_back(*handle);
    }
    for (Handle& handle : handles) expect_ok(handle.wait());
    EXPECT_TRUE(holds(own.x.data(), kCount, std::exp2(20)));
    expect_ok(context.barrier());
    expect_ok(own.window.update_then_collect());
    EXPECT_TRUE(holds(own.x.data(), kCount, std::exp2(20) + std::exp2(19)));
    expect_ok(own.window.flush());
    expect_ok(context.win_free("w"));
  });
}

}  // namespace
}  // namespace weft
