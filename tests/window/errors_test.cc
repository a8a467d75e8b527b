// What goes wrong with windows: each is an error that names the thing, and costs nothing but
// itself.
#include <array>
#include <latch>
#include <memory>
#include <optional>

#include "tests/context/outcomes.h"
#include "tests/window/window_job.h"

namespace weft {
namespace {

// Ring of 4 to the next rank: rank r writes to r + 1 alone.
void on_ring(const std::function<void(Context&, Owned&)>& body) {
  run_job(4, [&](Context& context) {
    ASSERT_TRUE(context.set_graph(*ring_graph(4, RingStyle::next)).ok());
    Owned own(context, 100, 1.0);
    body(context, own);
    // The window still works.
    expect_ok(context.barrier());
    expect_ok(own.window.put(own.tensor()));
    expect_ok(context.win_free("w"));
  });
}

TEST(WindowErrors, NameRanksThatAreNoNeighbors) {
  on_ring([](Context& context, Owned& own) {
    const Rank far = (context.rank() + 2) % 4;
    const std::string name = std::to_string(far);
    const NeighborWeight to[] = {{far, 1.0}};
    const auto code = Code::invalid_argument;
    expect_names(own.window.put(own.tensor(), {.destinations = to}), code,
                 {"win_put", "\"w\"", name.c_str()});
    expect_names(own.window.accumulate(own.tensor(), {.destinations = to}), code,
                 {"win_accumulate", "\"w\"", name.c_str()});
    expect_names(own.window.get({.sources = to}), code, {"win_get", "\"w\"", name.c_str()});
    expect_names(own.window.update({.self_weight = 1.0, .sources = to}), code,
                 {"win_update", "\"w\"", name.c_str()});
    expect_names(own.window.lock(std::span(&far, 1)), code, {"win_lock", "\"w\"", name.c_str()});
    double x = 0;
    expect_names(own.window.read(far, out(&x, 1)), code, {"win_read", "\"w\"", name.c_str()});
  });
}

TEST(WindowErrors, NameShapesAndTypes) {
  on_ring([](Context&, Owned& own) {
    std::vector<float> x(100);
    expect_names(own.window.put(out(x.data(), 100)), Code::invalid_argument, {"f64", "f32"});
    expect_names(own.window.put(out(own.x.data(), 99)), Code::invalid_argument, {"100", "99"});
    expect_names(own.window.update({.clone = out(own.x.data(), 100)}), Code::invalid_argument,
                 {"clone"});
    expect_names(own.window.update({.self_weight = 1.0}), Code::invalid_argument, {"both"});
    expect_names(own.window.put(own.tensor(), {.self_weight = std::nan("")}),
                 Code::invalid_argument, {"nan"});
    expect_names(own.window.put(own.tensor(), {.signal = 16}), Code::invalid_argument, {"16"});
    expect_names(own.window.put(own.tensor(), {.compression = Compression::sketch}),
                 Code::invalid_argument, {"win_put", "compression (sketch) takes f32", "f64"});
    const WindowPage outside{0, 796};
    expect_names(own.window.write(own.window.out_neighbors()[0], in(own.x.data(), 100),
                                  std::span(&outside, 1), 8),
                 Code::invalid_argument, {"796"});
  });
}

TEST(WindowErrors, AreTheSameOnAllRanksIfTheyDisagree) {
  const auto made_with = [](const std::function<Result<Window>(Context&, double*)>& make) {
    return outcomes(3, [&](Context& context) {
      std::vector<double> x(10);
      const Result<Window> made = make(context, x.data());
      EXPECT_TRUE(context.window_names().empty());
      // The context goes on.
      Owned own(context, 10, 1.0);
      expect_ok(context.win_free("w"));
      return made.status();
    });
  };
  const auto by_rank = [](Context& context, auto last, auto others) {
    return context.rank() == 2 ? last : others;
  };
  for (const Status& status : made_with([&](Context&context, double*x) {
         return context.win_create(out(x, by_rank(context, 9U, 10U)), "sizes");
       }))
    expect_names(status, Code::mismatch, {"sizes", "ranks 0 and 2", "10", "9"});
  for (const Status& status : made_with([&](Context&context, double*x) {
         return context.win_create(out(x, 10), by_rank(context, "right", "left"));
       }))
    expect_names(status, Code::mismatch, {"left", "right", "ranks 0 and 2"});
  for (const Status& status : made_with([&](Context&context, double*x) {
         return context.win_create(out(x, 10), "w", {.zero_init = context.rank() == 2});
       }))
    expect_names(status, Code::mismatch, {"zero_init", "ranks 0 and 2"});
  for (const Status& status : made_with([&](Context&context, double*x) {
         return context.win_create(out(by_rank(context, static_cast<double*>(nullptr), x), 10),
                                   "null");
       }))
    expect_names(status, Code::invalid_argument, {"null", "rank 2"});
  // Its slots have 0 bytes modulo 2^64.
  for (const Status& status : made_with([&](Context&context, double*x) {
         return context.win_create(out(x, by_rank(context, std::size_t{1} << 59, 10U)), "large");
       }))
    expect_names(status, Code::invalid_argument, {"large", "rank 2", "fit in no memory"});
}

TEST(WindowErrors, NameAWindowThatSomeRanksAloneMake) {
  Config config = test_config();
  config.deadline_ms = 300;
  const std::vector<Status> statuses = outcomes(
      3,
      [](Context& context) {
        std::vector<double> x(10);
        if (context.rank() != 1) return context.win_create(out(x.data(), 10), "lonely").status();
        return context.barrier();
      },
      config);
  for (const Rank rank : {0, 2}) {
    const Status& status = statuses[static_cast<std::size_t>(rank)];
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.text().find("lonely"), std::string_view::npos) << status.to_string();
  }
}

TEST(WindowErrors, NameUnknownAndFreedWindows) {
  run_job(2, [](Context& context) {
    expect_names(context.window("nowhere").status(), Code::invalid_argument, {"nowhere"});
    expect_names(context.win_free("nowhere"), Code::invalid_argument, {"nowhere"});
    Owned own(context, 10, 1.0);
    Owned second(context, 10, 1.0, "x");
    EXPECT_EQ(context.window_names(), (std::vector<std::string>{"w", "x"}));
    expect_names(context.set_graph(*ring_graph(2)), Code::invalid_argument, {"w", "1 more"});
    std::vector<double> again(10);
    expect_names(context.win_create(out(again.data(), 10), "w").status(), Code::invalid_argument,
                 {"\"w\"", "there is"});
    expect_ok(context.win_free_all());
    expect_names(own.window.put(own.tensor()), Code::invalid_argument, {"\"w\"", "freed"});
    expect_names(own.window.update(), Code::invalid_argument, {"\"w\"", "freed"});
    expect_names(Window().put(own.tensor()), Code::invalid_argument, {"no window"});
    expect_ok(context.set_graph(*ring_graph(2)));
    // The name may be used again, for another shape.
    Owned third(context, 20, 1.0);
    expect_ok(third.window.put(third.tensor()));
    expect_ok(context.win_free("w"));
  });
}

// A mutex that is held keeps the window from being freed, on all ranks.
TEST(WindowErrors, NameTheRankThatStillUsesAWindow) {
  run_job(2, [](Context& context) {
    Owned own(context, 10, 1.0);
    const Rank self[] = {context.rank()};
    if (context.rank() == 1) expect_ok(own.window.lock(self));
    expect_names(context.win_free("w"), Code::invalid_argument, {"\"w\"", "rank 1", "in use"});
    expect_ok(own.window.put(own.tensor()));
    if (context.rank() == 1) expect_ok(own.window.unlock());
    expect_ok(context.win_free("w"));
  });
}

TEST(WindowErrors, EndWithTheContext) {
  Window left;
  run_job(1, [&](Context& context) {
    Owned own(context, 10, 1.0);
    left = own.window;
    expect_ok(own.window.put(own.tensor()));
  });
  std::vector<double> x(10);
  expect_names(left.put(out(x.data(), 10)), Code::closed, {"closed"});
  expect_names(left.update(), Code::closed, {"closed"});
}

TEST(WindowErrors, OfIntegersNameTheType) {
  run_job(2, [](Context& context) {
    std::vector<std::int32_t> x(10, 7);
    Result<Window> window = context.win_create(out(x.data(), 10), "i");
    ASSERT_TRUE(window.ok());
    expect_ok(window->put(out(x.data(), 10)));
    const NeighborWeight half[] = {{1 - context.rank(), 0.5}};
    expect_names(window->put(out(x.data(), 10), {.destinations = half}), Code::invalid_argument,
                 {"i32", "0.5"});
    expect_names(window->update(), Code::invalid_argument, {"i32"});
    expect_names(window->accumulate(out(x.data(), 10)), Code::invalid_argument, {"i32"});
    expect_ok(context.win_free("i"));
  });
}

// Another rank may have freed its part.
TEST(WindowErrors, AWindowEndsIfARankDoesNotHearWhetherOthersFreeIt) {
  Config config = test_config();
  config.deadline_ms = 200;
  std::latch tried(1);
  run_job(
      2,
      [&](Context& context) {
        Owned own(context, 10, 1.0);
        if (context.rank() == 1) return tried.wait();
        expect_names(context.win_free("w"), Code::timed_out, {"\"w\"", "rank 1"});
        expect_names(own.window.put(own.tensor()), Code::timed_out, {"win_free", "rank 1"});
        tried.count_down();
      },
      config);
}

// Whatever becomes of the handle.
TEST(WindowOwner, LivesAsLongAsOthersMayUseTheTensor) {
  for (const bool is_freed : {true, false}) {
    std::array<std::weak_ptr<int>, 2> owners;
    run_job(2, [&](Context& context) {
      Array<double> x(10, false);
      auto owner = std::make_shared<int>(0);
      std::weak_ptr<int>& alive = owners[static_cast<std::size_t>(context.rank())] = owner;
      std::optional<Result<Window>> window =
          context.win_create(out(x.data(), 10), "owned", {.owner = std::move(owner)});
      ASSERT_TRUE(window->ok());
      if (!is_freed) window.reset();
      EXPECT_FALSE(alive.expired());
      if (is_freed) expect_ok(context.win_free("owned"));
      EXPECT_EQ(alive.expired(), is_freed);
    });
    // A context that closes leaves its windows to ranks that may still write there.
    for (const std::weak_ptr<int>& owner : owners) EXPECT_EQ(owner.expired(), is_freed);
  }
}

}  // namespace
}  // namespace weft
