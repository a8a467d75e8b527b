// Much at once and nothing at all: a thousand windows, ten thousand operations that nobody has waited
// for, tensors of no element. Nothing of it leaves anything behind.
#include <algorithm>
#include <array>
#include <numeric>

#include "tests/window/window_job.h"

namespace weft {
namespace {

class Bounds : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, Bounds, kBothWays, name_of);

TEST_P(Bounds, AThousandWindowsAreOpenAtOnce) {
  run(2, [](Context& context) {
    constexpr std::size_t kWindows = 1000;
    std::vector<double> x(kWindows);
    for (int round = 0; round < 2; ++round) {
      std::vector<Window> windows;
      for (std::size_t w = 0; w < kWindows; ++w) {
        x[w] = static_cast<double>(w) + 1000.0 * context.rank();
        Result<Window> made = context.win_create(out(&x[w], 1), "w" + std::to_string(w));
        ASSERT_TRUE(made.ok()) << w << ": " << made.status().to_string();
        windows.push_back(*std::move(made));
      }
      EXPECT_EQ(context.window_names().size(), kWindows);
      for (std::size_t w = 0; w < kWindows; ++w) expect_ok(windows[w].put(out(&x[w], 1)));
      expect_ok(context.win_fence());
      for (std::size_t w = 0; w < kWindows; ++w) {
        expect_ok(windows[w].update());
        ASSERT_EQ(x[w], static_cast<double>(w) + 500.0) << w;
      }
      expect_ok(context.win_free_all());
      EXPECT_TRUE(context.window_names().empty());
    }
  });
}

TEST_P(Bounds, TenThousandOperationsAreOutstanding) {
  run(2, [](Context& context) {
    constexpr std::size_t kHandles = 10'000;
    std::vector<float> x(kHandles), y(kHandles);
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < kHandles; ++i) {
      x[i] = static_cast<float>(i) + 2.0F * static_cast<float>(context.rank());
      Result<Handle> handle = i % 2 == 0
                                  ? context.allreduce_start(in(&x[i], 1), out(&y[i], 1))
                                  : context.neighbor_allreduce_start(in(&x[i], 1), out(&y[i], 1));
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      handles.push_back(*std::move(handle));
    }
    // The last first: all others have ended, too, or end now.
    for (std::size_t i = kHandles; i-- > 0;) expect_ok(handles[i].wait());
    EXPECT_TRUE(
        holds(y.data(), kHandles, [](std::size_t i) { return static_cast<float>(i) + 1.0F; }));
  });
}

// A send that nobody receives, and a recv that nobody sends to, wait as others do.
TEST_P(Bounds, TenThousandMessagesWaitForTheirReceiver) {
  run(2, [](Context& context) {
    constexpr std::size_t kMessages = 10'000;
    std::vector<std::int32_t> x(kMessages), y(kMessages);
    std::iota(x.begin(), x.end(), 0);
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < kMessages; ++i) {
      Result<Handle> handle = context.rank() == 0 ? context.send_start(in(&x[i], 1), 1)
                                                  : context.recv_start(out(&y[i], 1), 0);
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      handles.push_back(*std::move(handle));
      if (context.rank() == 1 && i == 0) expect_ok(context.barrier());
    }
    if (context.rank() == 0) expect_ok(context.barrier());
    for (Handle& handle : handles) expect_ok(handle.wait());
    if (context.rank() == 1) {
      EXPECT_EQ(x, y);
    }
  });
}

// Neither side needs an address for it.
TEST_P(Bounds, TensorsOfNoElementAreOperations) {
  run(3, [](Context& context) {
    const Input nothing{};
    const Output nowhere{};
    const Rank self = context.rank();
    const auto expect_all_run = [&] {
      expect_ok(context.neighbor_allreduce(nothing, nowhere));
      expect_ok(context.neighbor_allgather(nothing, nowhere));
      for (const auto algorithm :
           {AllreduceAlgorithm::automatic, AllreduceAlgorithm::direct, AllreduceAlgorithm::split,
            AllreduceAlgorithm::ring, AllreduceAlgorithm::halving_doubling})
        expect_ok(context.allreduce(nothing, nowhere, ReduceOp::sum, algorithm));
      expect_ok(context.local_allreduce(nothing, nowhere));
      expect_ok(context.broadcast(nothing, nowhere, 1));
      expect_ok(context.allgather(nothing, nowhere));
      expect_ok(context.reduce_scatter(nothing, nowhere));
      expect_ok(context.reduce(nothing, nowhere, 2));
      expect_ok(context.gather(nothing, nowhere, 2));
      expect_ok(context.scatter(nothing, nowhere, 2));
      expect_ok(context.alltoall(nothing, nowhere));
      const std::array<std::size_t, 3> none{};
      expect_ok(context.alltoallv(nothing, nowhere, none, none));
      const std::array<Rank, 3> all{0, 1, 2};
      expect_ok(context.group_average(nothing, nowhere, all));
      if (self < 2) expect_ok(context.pair_average(nothing, nowhere, 1 - self));
      if (self == 0) expect_ok(context.send(nothing, 1));
      if (self == 1) expect_ok(context.recv(nowhere, 0));
      for (const auto how : {Compression::f16, Compression::sketch, Compression::e4m3}) {
        Request request{.collective = Collective::neighbor_allreduce};
        request.compression = how;
        expect_ok(context.run(request));
      }
    };
    expect_all_run();
    expect_all_run();  // the second time as plans that are known
    Result<Window> window = context.win_create(nowhere, "empty");
    ASSERT_TRUE(window.ok()) << window.status().to_string();
    expect_ok(window->put(nowhere));
    expect_ok(window->accumulate(nowhere));
    expect_ok(window->get());
    expect_ok(context.win_fence());
    expect_ok(window->update());
    expect_ok(context.win_free("empty"));
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok()) << named.status().to_string();
    expect_ok(named->allreduce("a", nothing, nowhere, ReduceOp::sum));
    expect_ok(named->neighbor_allreduce("b", nothing, nowhere));
    expect_ok(named->broadcast("c", nothing, nowhere, 0));
    expect_ok(named->end());
    // And what comes after them is not disturbed.
    float x = static_cast<float>(self), y = 0;
    expect_ok(context.allreduce(in(&x, 1), out(&y, 1)));
    EXPECT_EQ(y, 1.0F);
  });
}

}  // namespace
}  // namespace weft
