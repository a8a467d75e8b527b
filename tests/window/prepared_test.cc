// Puts, accumulates and writes that are prepared once and run many times.
#include "tests/context/outcomes.h"
#include "tests/window/window_job.h"

namespace weft {
namespace {

class PreparedWindow : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, PreparedWindow, kBothWays, name_of);

constexpr std::size_t kCount = 1000;
constexpr int kTimes = 20;

Prepared ok(Result<Prepared> made) {
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return made.ok() ? *std::move(made) : Prepared();
}

TEST_P(PreparedWindow, PutsAndAccumulatesWhatIsThere) {
  run(2, [](Context& context) {
    Owned own(context, kCount, 0.0, "w", {.zero_init = true});
    Array<double> x(kCount, true);
    Prepared put, add;
    {
      std::vector<NeighborWeight> twice{{1 - context.rank(), 2.0}};
      put = ok(own.window.prepare_put(out(x.data(), kCount)));
      add = ok(own.window.prepare_accumulate(out(x.data(), kCount), {.destinations = twice}));
      twice[0] = {7, 100};
    }
    for (int time = 1; time <= kTimes; ++time) {
      for (std::size_t i = 0; i < kCount; ++i) x[i] = time;
      expect_ok(time % 2 == 0 ? put.run() : put.start()->wait());
      expect_ok(add.run());
      expect_ok(put.wait());
      expect_ok(context.barrier());
      const double before = own.x[0];
      expect_ok(own.window.update_then_collect());
      EXPECT_TRUE(holds(own.x.data(), kCount, before + 3.0 * time));
      expect_ok(context.barrier());
    }
    expect_ok(context.win_free("w"));
    EXPECT_EQ(put.run().code(), Code::invalid_argument);  // the window is gone
  });
}

TEST_P(PreparedWindow, WritesPages) {
  run(2, [](Context& context) {
    const Rank other = 1 - context.rank();
    Owned own(context, kCount, 0.0);
    Array<double> x(4, true);
    constexpr std::size_t kPage = 2 * sizeof(double);
    std::vector<WindowPage> pages{{0, kPage}, {kPage, 0}};
    Prepared write = ok(own.window.prepare_write(other, in(x.data(), 4), pages, kPage, 3));
    pages.clear();
    for (std::uint64_t time = 1; time <= kTimes; ++time) {
      for (std::size_t i = 0; i < 4; ++i) x[i] = static_cast<double>(time + i);
      const Result<std::optional<Handle>> rest = write.run_for(20'000'000'000);
      ASSERT_TRUE(rest.ok() && !rest->has_value());
      expect_ok(own.window.wait_signal(3, time));
      EXPECT_TRUE(holds(own.x.data(), 4,
                        [&](std::size_t i) { return static_cast<double>(time + (i + 2) % 4); }));
      expect_ok(context.barrier());
    }
    expect_ok(context.win_free("w"));
  });
}

TEST_P(PreparedWindow, SaysWhatIsWrongWithTheArguments) {
  run(2, [](Context& context) {
    Owned own(context, kCount, 0.0);
    Array<double> x(4, true);
    const Output small = out(x.data(), 4), whole = own.tensor();
    const WindowPage outside{0, kCount * sizeof(double)};
    const NeighborWeight nobody{5, 1.0};
    const std::span<const NeighborWeight> strangers(&nobody, 1);
    for (const Status& refused :
         {own.window.prepare_put(small).status(),
          own.window.prepare_put(whole, {.signal = 99}).status(),
          own.window.prepare_accumulate(whole, {.destinations = strangers}).status(),
          own.window.prepare_write(1 - context.rank(), in(x.data(), 4), {&outside, 1}, 8).status(),
          own.window.prepare_write(7, in(x.data(), 4), {}, 8).status(),
          Window().prepare_put(whole).status()}) {
      EXPECT_EQ(refused.code(), Code::invalid_argument) << refused.to_string();
    }
    expect_ok(context.win_free("w"));
  });
}

}  // namespace
}  // namespace weft
