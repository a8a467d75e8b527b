// Owners that call nothing: over a network without one-sided work of its own, their lanes serve.
#include <latch>

#include "tests/window/window_job.h"

namespace weft {
namespace {

class WindowServed : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, WindowServed, kBothWays, name_of);

TEST_P(WindowServed, WhileTheirOwnersCallNothing) {
  constexpr std::size_t kCount = 3000;
  std::latch ended(1);
  run(2, [&](Context& context) {
    Owned own(context, kCount, 1.0, "w", {.zero_init = true});
    if (context.rank() == 0) {
      ended.wait();  // not in Weft
    } else {
      for (int time = 1; time <= 20; ++time) {
        expect_ok(own.window.put(own.tensor()));
        expect_ok(own.window.accumulate(own.tensor()));
        expect_ok(own.window.get());
        const Rank its[] = {0};
        expect_ok(own.window.lock(its));
        expect_ok(own.window.unlock());
      }
      ended.count_down();
    }
    expect_ok(context.barrier());
    if (context.rank() == 0) {
      expect_ok(own.window.update_then_collect());
      EXPECT_TRUE(holds(own.x.data(), kCount, 3.0));
    }
    expect_ok(context.win_free("w"));
  });
}

}  // namespace
}  // namespace weft
