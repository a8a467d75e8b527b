// Calls that differ from the one before in a single argument, of which a rank must not take one for
// the other; and how many plans are kept.
#include "tests/context/job.h"

namespace weft {
namespace {

// Each call is repeated on every channel, as each remembers its last call.
constexpr int kTimes = 20;

void expect_ok(const Status& status) {
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST(Repeats, ACallWithAnotherRootIsAnotherCall) {
  run_job(3, [](Context& context) {
    Array<double> x(4, false), y(4, false);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = context.rank() + 1;
    for (int call = 0; call < 4 * kTimes; ++call) {
      const Rank root = call / kTimes % 3;
      expect_ok(context.broadcast(in(x.data(), 4), out(y.data(), 4), root));
      EXPECT_TRUE(holds(y.data(), 4, root + 1));
    }
  });
}

TEST(Repeats, ACallWithAnotherOperatorOrOtherMemoryIsAnotherCall) {
  run_job(3, [](Context& context) {
    Array<double> x(4, false), y(4, false), z(4, false);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = context.rank() + 1;
    const auto reduce = [&](Array<double>& to, ReduceOp op, std::size_t count, double want) {
      for (int time = 0; time < kTimes; ++time) {
        expect_ok(context.allreduce(in(x.data(), count), out(to.data(), count), op));
        EXPECT_TRUE(holds(to.data(), count, want));
      }
    };
    reduce(y, ReduceOp::sum, 4, 6);
    reduce(y, ReduceOp::max, 4, 3);
    reduce(y, ReduceOp::min, 4, 1);
    reduce(z, ReduceOp::min, 4, 1);
    reduce(z, ReduceOp::product, 2, 6);
    EXPECT_EQ(z[3], 1);
  });
}

TEST(Plans, AreKeptForABoundedNumberOfShapes) {
  run_job(2, [](Context& context) {
    constexpr std::size_t kShapes = 1100;
    Array<double> x(kShapes, false), y(kShapes, false);
    for (std::size_t count = 1; count <= kShapes; ++count)
      expect_ok(context.allreduce(in(x.data(), count), out(y.data(), count)));
    EXPECT_LE(context.usage().plans_cached, 1024U);
  });
}

}  // namespace
}  // namespace weft
