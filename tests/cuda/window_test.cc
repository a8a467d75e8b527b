// Windows on GPU memory: what their calls give, what neighbors see, and what goes wrong.
#include <array>
#include <cstring>
#include <string>

#include "tests/context/outcomes.h"
#include "tests/cuda/fake_library.h"

namespace weft {
namespace {

class GpuWindows : public testing::Test {
 protected:
  GpuWindows() { fake.reset(); }
  ~GpuWindows() override { fake.reset(); }
  const FakeDriver& fake = FakeDriver::get();
};

constexpr std::size_t kElements = 3000;

std::vector<double> numbers(Rank rank, int step) {
  std::vector<double> values(kElements);
  for (std::size_t i = 0; i < kElements; ++i)
    values[i] = static_cast<double>((i * 5 + static_cast<std::size_t>(rank) * 3) % 17 + 1) * step;
  return values;
}

// A window whose tensor is on this GPU, or on the host (-1).
struct Placed {
  Placed(Context& context, int device, const char* name, std::vector<double> values,
         const WindowOptions& options = {})
      : x(values.size(), device) {
    x.set(values);
    Result<Window> made = context.win_create(tensor(), name, options);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) window = *made;
  }
  [[nodiscard]] Output tensor() const { return out(x.data(), kElements); }

  GpuArray<double> x;
  Window window;
};

#define ASSERT_DONE(call)                       \
  do {                                          \
    const Status done = (call);                 \
    ASSERT_TRUE(done.ok()) << done.to_string(); \
  } while (false)

// One program with every call that moves a tensor. `device`: of this rank's tensor, `other`: of
// tensors that are not the window's. Gives what it has seen.
void run_program(Context& context, int device, int other, std::vector<std::vector<double>>& seen) {
  const Rank rank = context.rank();
  const char* const name = device < 0 && other < 0 ? "host" : "gpu";
  Placed own(context, device, name, numbers(rank, 1));
  Window& window = own.window;
  ASSERT_TRUE(window.set_associated_p(true).ok());
  GpuArray<double> y(kElements, other), clone(kElements, other);
  const auto meet = [&] { ASSERT_DONE(context.win_fence()); };
  // Slots begin with the tensor.
  ASSERT_DONE(window.update());
  seen.push_back(own.x.get());
  meet();
  ASSERT_DONE(window.put(own.tensor(), {.self_weight = 0.5}));
  meet();
  seen.push_back(own.x.get());
  ASSERT_DONE(window.update({.clone = out(clone.data(), kElements)}));
  seen.push_back(clone.get());
  seen.push_back(own.x.get());
  ASSERT_DONE(window.update());
  seen.push_back(own.x.get());
  meet();
  y.set(numbers(rank, 3));
  Result<Handle> added = window.accumulate_start(out(y.data(), kElements), {.self_weight = 0.25});
  ASSERT_TRUE(added.ok()) << added.status().to_string();
  ASSERT_DONE(added->wait());
  seen.push_back(y.get());
  ASSERT_DONE(window.put(out(y.data(), kElements), {.require_mutex = true}));
  meet();
  ASSERT_DONE(window.accumulate(own.tensor()));
  meet();
  ASSERT_DONE(window.update_then_collect());
  seen.push_back(own.x.get());
  meet();
  // The tensor changes outside of the window; the fence shows it to neighbors.
  own.x.set(numbers(rank, 7));
  meet();
  ASSERT_DONE(window.get());
  ASSERT_DONE(context.barrier());
  ASSERT_DONE(window.update());
  seen.push_back(own.x.get());
  seen.push_back({window.associated_p().value()});
  meet();
  ASSERT_DONE(window.read(window.in_neighbors().front(), out(y.data(), kElements)));
  seen.push_back(y.get());
  meet();
  ASSERT_DONE(context.win_free(name));
}

TEST_F(GpuWindows, GiveWhatTheyGiveOnTheHost) {
  run_job(4, [](Context& context) {
    std::vector<std::vector<double>> host, gpu;
    run_program(context, -1, -1, host);
    run_program(context, context.rank() % 3 - 1, (context.rank() + 1) % 3 - 1, gpu);
    ASSERT_EQ(gpu.size(), host.size());
    for (std::size_t each = 0; each < host.size(); ++each) EXPECT_EQ(gpu[each], host[each]) << each;
  });
}

TEST_F(GpuWindows, NeighborsSeeATensorAsAtItsOwnersLastCall) {
  run_job(2, [](Context& context) {
    Placed own(context, 0, "w", std::vector<double>(kElements, 1), {.zero_init = true});
    std::vector<double> seen(kElements);
    const Rank other = 1 - context.rank();
    const auto look = [&] {
      ASSERT_DONE(own.window.read(other, out(seen.data(), kElements)));
      ASSERT_DONE(context.barrier());
    };
    own.x.set(std::vector<double>(kElements, 2));
    look();
    EXPECT_EQ(seen, std::vector<double>(kElements, 1));
    ASSERT_DONE(own.window.flush());
    ASSERT_DONE(context.barrier());
    look();
    EXPECT_EQ(seen, std::vector<double>(kElements, 2));
    EXPECT_NE(context.explain().find("on GPU 0, and neighbors read a copy on the host"),
              std::string::npos)
        << context.explain();
  });
}

TEST_F(GpuWindows, CallsBeginBehindTheirStream) {
  if (!fake.is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(2, [&](Context& context) {
    Placed own(context, 0, "w", std::vector<double>(kElements, 1), {.zero_init = true});
    ASSERT_DONE(context.barrier());
    if (context.rank() == 0) {
      void* const stream = fake.stream(0);
      const std::vector<double> fives(kElements, 5);
      fake.run_at_once(0);
      fake.copy_in(0, own.x.data(), fives.data(), kElements * sizeof(double), stream);
      Result<Handle> put = own.window.put_start(own.tensor(), {.stream = Stream{stream}});
      ASSERT_TRUE(put.ok()) << put.status().to_string();
      EXPECT_FALSE(put->wait_for(20'000'000)) << "nothing of the stream has run";
      fake.run_at_once(1);
      ASSERT_DONE(put->wait());
      EXPECT_EQ(own.window.versions().value(), std::vector<std::uint64_t>{0});
    }
    ASSERT_DONE(context.barrier());
    if (context.rank() == 1) {
      const std::array<NeighborWeight, 1> of_zero{{{0, 1.0}}};
      ASSERT_DONE(own.window.update({.self_weight = 0.0, .sources = of_zero}));
      EXPECT_EQ(own.x.get(), std::vector<double>(kElements, 5));
    }
    ASSERT_DONE(context.barrier());
  });
}

TEST_F(GpuWindows, PagesOfAGpuGoToTheHostAndNotBack) {
  run_job(2, [](Context& context) {
    const Rank other = 1 - context.rank();
    Placed host(context, -1, "host", std::vector<double>(kElements, 0));
    // Rank 1's tensor is on a GPU.
    Placed mixed(context, context.rank() == 1 ? 0 : -1, "mixed", std::vector<double>(kElements, 0));
    GpuArray<double> x(kElements, 1);
    x.set(numbers(context.rank(), 1));
    constexpr std::size_t kPage = 8 * sizeof(double);
    const std::array<WindowPage, 2> pages{{{kPage, 0}, {0, 5 * kPage}}};
    ASSERT_DONE(host.window.write(other, in(x.data(), kElements), pages, kPage));
    ASSERT_DONE(context.barrier());
    const std::vector<double> got = host.x.get(), theirs = numbers(other, 1);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(got[i], theirs[8 + i]);
      EXPECT_EQ(got[40 + i], theirs[i]);
      EXPECT_EQ(got[8 + i], 0);
    }
    const Status status = mixed.window.write(other, in(x.data(), kElements), pages, kPage);
    if (context.rank() == 0)
      expect_names(status, Code::unavailable, {"win_write", "\"mixed\"", "rank 1", "GPU memory"});
    else
      EXPECT_TRUE(status.ok()) << status.to_string();
    ASSERT_DONE(context.barrier());
  });
}

TEST_F(GpuWindows, ErrorsNameTheWindowAndTheGpu) {
  if (!fake.is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(2, [&](Context& context) {
    Placed own(context, context.rank(), "w", std::vector<double>(kElements, 1));
    std::vector<double> host(kElements);
    ASSERT_DONE(context.barrier());
    if (context.rank() == 1) {
      void* const stream = fake.stream(1);
      fake.capture(stream, 1);
      expect_names(own.window.put(own.tensor(), {.stream = Stream{stream}}), Code::invalid_argument,
                   {"captured"});
      fake.capture(stream, 0);
      fake.fail("cuMemcpyDtoHAsync", 700, 1);
      expect_names(own.window.put(own.tensor()), Code::system,
                   {"win_put", "\"w\"", "GPU 1", "CUDA_ERROR"});
      // It goes on.
      ASSERT_DONE(own.window.put(own.tensor()));
    }
    ASSERT_DONE(context.barrier());
    if (context.rank() == 0) {
      EXPECT_EQ(own.window.versions().value(), std::vector<std::uint64_t>{1});
    }
    ASSERT_DONE(context.barrier());
    ASSERT_DONE(context.win_free("w"));
    Placed on_host(context, -1, "h", host);
    void* const stream = fake.stream(0);
    expect_names(on_host.window.put(on_host.tensor(), {.stream = Stream{stream}}),
                 Code::invalid_argument, {"win_put", "\"h\"", "stream"});
    ASSERT_DONE(context.barrier());
  });
}

TEST_F(GpuWindows, AStreamThatTakesTooLongIsAnError) {
  if (!fake.is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  Config config = test_config();
  config.deadline_ms = 100;
  run_job(
      1,
      [&](Context& context) {
        Placed own(context, 1, "w", std::vector<double>(kElements, 1));
        void* const stream = fake.stream(1);
        fake.hold(stream);
        expect_names(own.window.put(own.tensor(), {.stream = Stream{stream}}), Code::timed_out,
                     {"win_put", "\"w\"", "GPU 1"});
        expect_names(own.window.update({.stream = Stream{stream}}), Code::timed_out,
                     {"win_update", "\"w\"", "GPU 1"});
        fake.release(stream);
        ASSERT_DONE(own.window.put(own.tensor()));
      },
      config);
}

}  // namespace
}  // namespace weft
