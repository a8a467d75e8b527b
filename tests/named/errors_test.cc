// What is wrong with operations by name, and what everybody is told.
#include <atomic>
#include <cmath>
#include <latch>

#include "tests/context/outcomes.h"
#include "tests/window/window_job.h"

namespace weft {
namespace {

class NamedErrors : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, NamedErrors, kBothWays, name_of);

TEST_P(NamedErrors, DifferentRequestsUnderOneNameFailOnAllRanksAndOthersGoOn) {
  run(3, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    std::vector<double> x(8, 1.0), y(8);
    for (int round = 0; round < 2; ++round) {
      const std::size_t count = context.rank() == 2 ? 5 : 4;
      Result<Handle> wrong = named->allreduce_start("w", in(x.data(), count), out(y.data(), count));
      ASSERT_TRUE(wrong.ok());
      double sum = 0;
      expect_ok(named->allreduce("right", in(x.data(), 1), out(&sum, 1), ReduceOp::sum));
      EXPECT_EQ(sum, 3.0);
      const Status status = wrong->wait();
      EXPECT_EQ(status.code(), Code::mismatch);
      EXPECT_NE(status.text().find("4 elements of f64"), std::string::npos) << status.to_string();
      EXPECT_NE(status.text().find("5 elements of f64"), std::string::npos) << status.to_string();
    }
    expect_ok(named->end());
  });
}

TEST_P(NamedErrors, NeighborsWithDifferentTensorsFailAtBothEnds) {
  run(2, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    std::vector<double> x(8, 1.0), y(8);
    const std::size_t count = context.rank() == 0 ? 5 : 4;
    const Status status = named->neighbor_allreduce("w", in(x.data(), count), out(y.data(), count));
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
    expect_ok(named->neighbor_allreduce("w", in(x.data(), 3), out(y.data(), 3)));
    EXPECT_TRUE(holds(y.data(), 3, 1.0));
    expect_ok(named->end());
  });
}

TEST_P(NamedErrors, NeighborsThatCompressDifferentlyFailAtBothEndsAndOthersGoOn) {
  run(2, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    std::vector<float> x(100, 2.0F), y(100);
    Request request{.collective = Collective::neighbor_allreduce,
                    .input = in(x.data(), 100),
                    .output = out(y.data(), 100)};
    request.compression = context.rank() == 0 ? Compression::sketch : Compression::none;
    expect_names(named->run("w", request), Code::mismatch, {"w: ", "sketch", "none"});
    request.compression = Compression::sketch;
    expect_ok(named->run("w", request));
    EXPECT_TRUE(holds(y.data(), 100, 2.0F));
    expect_ok(named->end());
  });
}

TEST_P(NamedErrors, ShapesAreComparedWhereTheyAreGiven) {
  run(2, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    std::vector<double> x(6, 1.0), y(6);
    const std::size_t shape[] = {context.rank() == 0 ? 2UL : 3UL, context.rank() == 0 ? 3UL : 2UL};
    Request request{.collective = Collective::allreduce,
                    .input = in(x.data(), 6),
                    .output = out(y.data(), 6),
                    .shape = shape};
    expect_names(named->run("w", request), Code::mismatch, {"w: ", "rank 1", "(2, 3)", "(3, 2)"});
    std::vector<std::size_t> extents(shape, shape + 2);  // the caller's again after the call
    std::vector<Request> group(100, request);
    for (Request& each : group) each.shape = extents;
    Result<Handle> started = named->start_group("g", group);
    ASSERT_TRUE(started.ok());
    extents.assign(2, 7);
    group.clear();
    expect_names(started->wait(), Code::mismatch, {"g: ", "(2, 3)", "(3, 2)"});
    request.collective = Collective::pair_average;
    request.peer = 1 - context.rank();
    expect_names(named->run("w", request), Code::mismatch, {"w: ", "(2, 3)", "(3, 2)"});
    request.shape = {};
    expect_ok(named->run("v", request));
    const std::vector<std::size_t> long_shape(100, 1);
    request.shape = long_shape;
    expect_names(named->run("w", request), Code::invalid_argument, {"100 extents"});
    expect_ok(named->end());
  });
}

// Rank 1 leaves before the others wait for it, or while they do.
TEST_P(NamedErrors, ARankThatLeavesIsNamedAtOnce) {
  for (const bool is_late : {false, true}) {
    run(3, [&](Context& context) {
      Result<Named> named = context.named();
      ASSERT_TRUE(named.ok());
      double x = 1;
      double y = 0;
      expect_ok(named->allreduce("a", in(&x, 1), out(&y, 1)));
      Result<Handle> handle = Handle();
      const auto start = [&] { return named->allreduce_start("late", in(&x, 1), out(&y, 1)); };
      if (is_late && context.rank() != 1) handle = start();
      expect_ok(context.barrier());
      if (context.rank() == 1) return;
      if (!is_late) handle = start();
      ASSERT_TRUE(handle.ok());
      const Status status = handle->wait();
      expect_names(status, Code::peer_left, {"late: rank 1 closed its context"});
      EXPECT_EQ(status.rank(), 1);
    });
  }
}

TEST_P(NamedErrors, WhatNoRanksCanRunIsRefusedAndOthersGoOn) {
  run(3, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    double x = 1;
    double y = 0;
    Request request{.collective = Collective::allreduce,
                    .input = in(&x, 1),
                    .output = out(&y, 1),
                    .op = ReduceOp::sum};
    for (const AllreduceAlgorithm algorithm :
         {AllreduceAlgorithm::torus, AllreduceAlgorithm::bcube}) {
      request.algorithm = algorithm;
      const Result<Handle> started = named->start("w", request);
      expect_names(started.status(), Code::invalid_argument,
                   {std::string(name(algorithm)).c_str()});
    }
    request.algorithm = AllreduceAlgorithm::automatic;
    expect_ok(named->run("w", request));
    EXPECT_EQ(y, 3.0);
    expect_ok(named->end());
  });
}

// WEFT_ALLREDUCE chooses an algorithm for two tensors together that it does not choose for one.
TEST(NamedErrorsOfOneMachine, ABatchThatNoRanksCanRunEndsAlone) {
  Config config = test_config();
  config.allreduce = "direct:64,torus";
  run_job(
      3,
      [](Context& context) {
        Result<Named> named = context.named();
        ASSERT_TRUE(named.ok());
        const std::vector<float> x(32, 1.0F);
        std::vector<float> y(32);
        std::vector<Request> group;
        for (const std::size_t at : {0, 16}) {
          group.push_back({.collective = Collective::allreduce,
                           .input = in(&x[at], 16),
                           .output = out(&y[at], 16),
                           .op = ReduceOp::sum});
        }
        Result<Handle> started = named->start_group("group", group);
        ASSERT_TRUE(started.ok());
        expect_names(started->wait(), Code::invalid_argument, {"torus"});
        expect_ok(named->run("one", group.front()));
        EXPECT_TRUE(holds(y.data(), 16, 3.0F));
        expect_ok(named->end());
      },
      config);
}

TEST_P(NamedErrors, CountsThatDifferFailOnAllRanksAndOthersGoOn) {
  run(3, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    const auto rank = static_cast<std::size_t>(context.rank());
    std::vector<double> x(8, 1.0), y(8);
    std::vector<std::size_t> counts(3, 3);
    counts[rank] = 2;
    Request request{.collective = Collective::allgather,
                    .input = in(x.data(), 2),
                    .output = out(y.data(), 8),
                    .counts = counts};
    expect_names(named->run("w", request), Code::mismatch, {"w: ", "counts", "rank"});
    counts = {2, 3, 3};
    request.input.count = counts[rank];
    expect_ok(named->run("w", request));
    EXPECT_TRUE(holds(y.data(), 8, 1.0));
    expect_ok(named->end());
  });
}

// A name of some ranks, then of all.
TEST_P(NamedErrors, ANameOfSomeRanksIsFreeForTheGraphAfterwards) {
  run(3, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    double x = context.rank();
    double y = -1;
    if (context.rank() < 2) {
      expect_ok(named->run("x", {.collective = Collective::pair_average,
                                 .input = in(&x, 1),
                                 .output = out(&y, 1),
                                 .peer = 1 - context.rank()}));
      EXPECT_EQ(y, 0.5);
    }
    expect_ok(named->set_graph(*fully_connected_graph(3)));
    expect_ok(named->neighbor_allreduce("x", in(&x, 1), out(&y, 1)));
    EXPECT_NEAR(y, 1.0, 1e-12);
    expect_ok(named->end());
  });
}

TEST_P(NamedErrors, DifferentGraphsFailAtBothEnds) {
  run(3, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    // Rank 0 believes in the edge 0 -> 1 and all the others of the ring; rank 1 does not.
    expect_ok(named->set_graph(
        *ring_graph(3, context.rank() == 1 ? RingStyle::previous : RingStyle::next)));
    double x = 1;
    double y = 0;
    const Status status = named->neighbor_allreduce("w", in(&x, 1), out(&y, 1));
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
    EXPECT_NE(status.text().find("which has no edge"), std::string::npos) << status.to_string();
    // A last exchange, after which nobody asks any more.
    expect_ok(named->set_graph(*ring_graph(3, RingStyle::next)));
    expect_ok(named->neighbor_allreduce("v", in(&x, 1), out(&y, 1)));
    expect_ok(named->end());
  });
}

TEST(NamedErrorsOfOneMachine, NamesAndRequestsAreCheckedAtOnce) {
  run_job(2, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    double x = 1;
    double y = 0;
    const Input from = in(&x, 1);
    const Output to = out(&y, 1);
    EXPECT_EQ(named->allreduce_start("", from, to).status().code(), Code::invalid_argument);
    EXPECT_EQ(named->allreduce_start(std::string(2000, 'x'), from, to).status().code(),
              Code::invalid_argument);
    EXPECT_EQ(named->allreduce_start("a", in(&x, 1), out(&y, 0)).status().code(),
              Code::invalid_argument);
    EXPECT_EQ(named->broadcast_start("a", from, to, 7).status().code(), Code::invalid_argument);
    const NeighborWeight self[] = {{context.rank(), 1.0}};
    EXPECT_EQ(named
                  ->neighbor_allreduce_start("a", from, to,
                                             {.self = 1, .sources = self, .destinations = self})
                  .status()
                  .code(),
              Code::invalid_argument);
    const NeighborWeight other[] = {{1 - context.rank(), 1.0}};
    for (const double own : {0.7, std::nan("")}) {
      const NeighborWeights weights{
          .self = own, .sources = {}, .destinations = other, .push_sum = own < 1};
      EXPECT_EQ(named->neighbor_allreduce_start("a", from, to, weights).status().code(),
                Code::invalid_argument);
    }
    Request pair{.collective = Collective::pair_average, .input = from, .output = to};
    pair.peer = 1 - context.rank();
    pair.self_weight = std::nan("");
    EXPECT_EQ(named->start("a", pair).status().code(), Code::invalid_argument);
    Result<Handle> first = named->allreduce_start("a", from, to);
    ASSERT_TRUE(first.ok());
    const Result<Handle> again = named->allreduce_start("a", from, to);
    // The first one has ended if the other rank was fast.
    if (!again.ok()) {
      EXPECT_EQ(again.status().text(), "a: an operation of this name is pending");
    }
    expect_ok(first->wait());
    if (again.ok()) expect_ok(Handle(*again).wait());
    expect_ok(context.barrier());
    if (!again.ok()) expect_ok(named->allreduce("a", from, to));
    Named none;
    EXPECT_EQ(none.allreduce("a", from, to).code(), Code::invalid_argument);
    EXPECT_EQ(context.named({.stall_ms = 0}).status().code(), Code::invalid_argument);
    EXPECT_EQ(context.named({.cache_capacity = 1'000'000}).status().code(), Code::invalid_argument);
  });
}

// The names that rank 1 never submits end at the deadline on all ranks, with a text that says so.
Config impatient() {
  Config config = test_config();
  config.deadline_ms = 1500;
  config.log = LogLevel::warning;
  return config;
}

TEST(NamedErrorsOfOneMachine, ARankThatStopsSubmittingIsNamedAtTheDeadline) {
  std::latch ended(2);
  std::atomic<int> told = 0;
  set_log_sink([&](const LogRecord& record) {
    if (record.text.find("lonely: submitted by") != std::string_view::npos &&
        record.level == LogLevel::warning)
      ++told;
  });
  run_job(
      3,
      [&](Context& context) {
        Result<Named> named = context.named({.stall_ms = 20});
        ASSERT_TRUE(named.ok());
        double x = 1;
        double y = 0;
        if (context.rank() != 1) {
          const Status status = named->allreduce("lonely", in(&x, 1), out(&y, 1));
          EXPECT_EQ(status.code(), Code::timed_out) << status.to_string();
          EXPECT_NE(status.text().find("lonely: submitted by ranks 0, 2, not by 1"),
                    std::string::npos)
              << status.to_string();
          ended.count_down();
        }
        ended.wait();
      },
      impatient());
  set_log_sink(nullptr);
  // One rank tells, after 20 ms, 40 ms, 80 ms and so on up to 1280 ms.
  EXPECT_GE(told, 1);
  EXPECT_LE(told, 7);
}

TEST(NamedErrorsOfOneMachine, EndWithPendingOperationsIsAnError) {
  run_job(2, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    double x = 1;
    double y = 0;
    Handle handle;
    if (context.rank() == 0) {
      handle = *named->allreduce_start("a", in(&x, 1), out(&y, 1));
      EXPECT_EQ(named->end().text(), "end: a is pending; wait for it first");
    }
    expect_ok(context.barrier());
    if (context.rank() == 1) handle = *named->allreduce_start("a", in(&x, 1), out(&y, 1));
    expect_ok(handle.wait());
    expect_ok(named->end());
    EXPECT_EQ(named->allreduce("a", in(&x, 1), out(&y, 1)).code(), Code::invalid_argument);
  });
}

TEST(NamedErrorsOfOneMachine, HandlesOutliveTheObject) {
  run_job(2, [](Context& context) {
    Handle handle;
    double x = 1;
    double y = 0;
    {
      Result<Named> named = context.named();
      ASSERT_TRUE(named.ok());
      if (context.rank() == 0) handle = *named->allreduce_start("a", in(&x, 1), out(&y, 1));
      expect_ok(context.barrier());
    }
    if (context.rank() == 0) {
      EXPECT_EQ(handle.wait().code(), Code::closed);
    }
  });
}

}  // namespace
}  // namespace weft
