// What goes wrong between ranks: every side gets an error that names the thing and the ranks, soon.
#include <cmath>
#include <latch>
#include <limits>
#include <map>

#include "tests/context/outcomes.h"

namespace weft {
namespace {

Status average(Context& context, std::size_t count, const NeighborWeights& weights = {}) {
  Array<float> x(count, false), y(count, false);
  return context.neighbor_allreduce(in(x.data(), count), out(y.data(), count), weights);
}

TEST(Mismatch, OfSizesIsAnErrorOnBothSidesThatNamesThem) {
  for (const std::size_t small : {1UL, 100UL, 5000UL}) {
    const auto statuses = outcomes(2, [&](Context& context) {
      return average(context, context.rank() == 0 ? small : 3 * small);
    });
    expect_names(statuses[0], Code::mismatch, {"rank 1", "bytes"});
    expect_names(statuses[1], Code::mismatch, {"rank 0", "bytes"});
  }
}

TEST(Mismatch, OfTypesIsAnErrorOnBothSides) {
  const auto statuses = outcomes(2, [&](Context& context) {
    if (context.rank() == 0) return average(context, 2);
    Array<double> x(1, false), y(1, false);
    return context.neighbor_allreduce(in(x.data(), 1), out(y.data(), 1));
  });
  expect_names(statuses[0], Code::mismatch, {"f64", "f32"});
  expect_names(statuses[1], Code::mismatch, {"f64", "f32"});
}

TEST(Mismatch, OfOperationsIsAnErrorOnBothSides) {
  const auto statuses = outcomes(2, [&](Context& context) {
    if (context.rank() == 0) return context.barrier();
    return average(context, 1);
  });
  expect_names(statuses[0], Code::mismatch, {"barrier", "neighbor_allreduce"});
  expect_names(statuses[1], Code::mismatch, {"barrier", "neighbor_allreduce"});
}

// Rank 0 has an edge to rank 1; rank 1 has none from it, and nobody else tells them.
TEST(Mismatch, OneSidedEdgeFailsOnBothSides) {
  for (const bool sender_has_it : {true, false}) {
    const auto statuses = outcomes(3, [&](Context& context) {
      const NeighborWeight one{1, 1.0}, zero{0, 1.0};
      NeighborWeights weights;
      weights.self = 0.5;
      weights.sources = std::span<const NeighborWeight>{};
      weights.destinations = std::span<const NeighborWeight>{};
      if (sender_has_it && context.rank() == 0) weights.destinations = std::span(&one, 1);
      if (!sender_has_it && context.rank() == 1) weights.sources = std::span(&zero, 1);
      Status status = average(context, 10, weights);
      // The rank without the edge may be past the operation before it is asked; it learns in the
      // next one.
      if (status.ok()) status = context.barrier();
      return status;
    });
    expect_names(statuses[0], Code::mismatch, {"rank 0", "rank 1", "edge"});
    expect_names(statuses[1], Code::mismatch, {"rank 0", "rank 1", "edge"});
    EXPECT_FALSE(statuses[2].ok());
  }
}

TEST(Mismatch, OneDirectionOfASharedPairIsNoticedAtOnce) {
  const auto statuses = outcomes(2, [&](Context& context) {
    const NeighborWeight other{1 - context.rank(), 1.0};
    NeighborWeights weights;
    weights.self = 0.5;
    weights.sources = std::span(&other, 1);
    weights.destinations = std::span<const NeighborWeight>{};
    if (context.rank() == 0) weights.destinations = std::span(&other, 1);
    return average(context, 10, weights);
  });
  EXPECT_EQ(statuses[0].code(), Code::mismatch) << statuses[0].to_string();
  EXPECT_EQ(statuses[1].code(), Code::mismatch) << statuses[1].to_string();
}

TEST(Deadline, ARankThatNeverArrivesIsNamed) {
  Config config = test_config();
  config.deadline_ms = 300;
  std::latch timed_out(1);
  const std::int64_t start = now_ns();
  const auto statuses = outcomes(
      2,
      [&](Context& context) {
        if (context.rank() == 1) {
          timed_out.wait();
          return Status{};
        }
        Status status = average(context, 100);
        timed_out.count_down();
        return status;
      },
      config);
  expect_names(statuses[0], Code::timed_out, {"rank 1", "300 ms"});
  EXPECT_EQ(statuses[0].rank(), 1);
  EXPECT_LT(now_ns() - start, 10'000'000'000);
}

TEST(Leaving, APeerThatClosesWhileNeededIsNamed) {
  const auto statuses = outcomes(2, [&](Context& context) {
    WEFT_RETURN_IF_ERROR(average(context, 100));
    if (context.rank() == 1) return Status{};
    return average(context, 100);
  });
  expect_names(statuses[0], Code::peer_left, {"rank 1"});
  EXPECT_TRUE(statuses[1].ok());
}

TEST(Leaving, AfterTheLastOperationIsNoError) {
  for (int round = 0; round < 20; ++round) {
    for (const Status& status :
         outcomes(4, [&](Context& context) { return average(context, 70'000); })) {
      EXPECT_TRUE(status.ok()) << status.to_string();
    }
  }
}

TEST(Failed, ContextKeepsItsFirstError) {
  const auto statuses = outcomes(2, [&](Context& context) {
    const Status first = average(context, context.rank() == 0 ? 1 : 2);
    const Status second = context.barrier();
    EXPECT_EQ(first.to_string(), second.to_string());
    return second;
  });
  EXPECT_EQ(statuses[0].code(), Code::mismatch);
}

TEST(Arguments, AreCheckedBeforeAnythingMoves) {
  run_job(2, [](Context& context) {
    float x[4] = {1, 2, 3, 4}, y[4] = {};
    std::int32_t i[2] = {}, j[2] = {};
    expect_names(context.neighbor_allreduce(in(x, 4), out(y, 3)), Code::invalid_argument,
                 {"4", "3"});
    expect_names(context.neighbor_allreduce(in(x, 3), out(x + 1, 3)), Code::invalid_argument,
                 {"overlap"});
    expect_names(context.neighbor_allreduce(in<float>(nullptr, 3), out(y, 3)),
                 Code::invalid_argument, {"null"});
    expect_names(context.neighbor_allreduce(in(i, 2), out(j, 2)), Code::invalid_argument, {"i32"});
    expect_names(context.allreduce(in(i, 2), out(j, 2)), Code::invalid_argument,
                 {"average", "i32"});
    expect_names(context.allreduce(in(x, 2), out(y, 2), ReduceOp::bit_or), Code::invalid_argument,
                 {"f32"});
    expect_names(context.broadcast(in(x, 4), out(y, 4), 7), Code::invalid_argument, {"7"});
    expect_names(context.set_graph(*make_graph("ring", 5)), Code::invalid_argument, {"5", "2"});
    const NeighborWeight stranger{7, 1.0}, self{context.rank(), 1.0};
    const NeighborWeight infinite{1 - context.rank(), std::numeric_limits<double>::infinity()};
    NeighborWeights weights;
    weights.sources = std::span(&stranger, 1);
    expect_names(context.neighbor_allreduce(in(x, 4), out(y, 4), weights), Code::invalid_argument,
                 {"self_weight"});
    weights.self = 1.0;
    expect_names(context.neighbor_allreduce(in(x, 4), out(y, 4), weights), Code::invalid_argument,
                 {"rank 7", "no in-neighbor"});
    weights.sources = std::span(&infinite, 1);
    expect_names(context.neighbor_allreduce(in(x, 4), out(y, 4), weights), Code::invalid_argument,
                 {"inf"});
    weights.destinations = std::span(&self, 1);
    weights.sources = std::span<const NeighborWeight>{};
    expect_names(context.neighbor_allreduce(in(x, 4), out(y, 4), weights), Code::invalid_argument,
                 {"dst_weights"});
    weights.destinations = std::span(&stranger, 1);
    weights.sources.reset();
    expect_names(context.neighbor_allreduce(in(x, 4), out(y, 4), weights), Code::invalid_argument,
                 {"rank 7", "no out-neighbor"});
    // None of that cost the context anything.
    EXPECT_TRUE(context.barrier().ok());
    EXPECT_EQ(y[0], 0.0F);
  });
}

TEST(BadInput, PushSumWeightsThatMakeOrLoseMassAreRefused) {
  run_job(2, [](Context& context) {
    float x = 1, y = 7;
    for (const double sent : {0.25, 0.75}) {
      const NeighborWeight to{1 - context.rank(), sent};
      NeighborWeights push;
      push.self = 0.5;
      push.destinations = std::span(&to, 1);
      push.push_sum = true;
      expect_names(context.neighbor_allreduce(in(&x, 1), out(&y, 1), push), Code::invalid_argument,
                   {"push-sum", "sum to", sent < 0.5 ? "0.75" : "1.25"});
      EXPECT_EQ(y, 7);
    }
    const NeighborWeight half{1 - context.rank(), 0.5};
    NeighborWeights push;
    push.self = 0.5;
    push.push_sum = true;
    expect_names(context.neighbor_allreduce(in(&x, 1), out(&y, 1), push), Code::invalid_argument,
                 {"dst_weights"});
    push.destinations = std::span(&half, 1);
    EXPECT_TRUE(context.neighbor_allreduce(in(&x, 1), out(&y, 1), push).ok());
    EXPECT_EQ(y, 1);
  });
}

// A rank whose operation has failed may change its input, also before all others have read it in place.
TEST(Errors, WhatAFailedRankMayHaveChangedIsNoResult) {
  std::latch has_changed(1);
  const auto statuses = outcomes(3, [&](Context& context) -> Status {
    constexpr std::size_t kCount = 100'000;
    const Rank rank = context.rank();
    WEFT_RETURN_IF_ERROR(context.set_graph(
        *Graph::from_edges(3, {{0, 1, 1.0}, {1, 2, 1.0}}, {1.0, 1.0, 1.0}, "chain")));
    WEFT_RETURN_IF_ERROR(context.barrier());
    Array<float> x(kCount, false), y(kCount, false);
    const std::size_t count = rank == 0 ? kCount - 1 : kCount;
    if (rank == 2) has_changed.wait();
    const Status status = context.neighbor_allreduce(in(x.data(), count), out(y.data(), count));
    if (rank == 1) {
      std::fill_n(x.data(), kCount, 777.0F);
      has_changed.count_down();
    }
    return status;
  });
  for (const Status& status : statuses) expect_names(status, Code::mismatch, {"rank 0"});
}

// By a cast, or from another language.
TEST(Errors, NumbersThatNameNothingAreRefused) {
  run_job(2, [](Context& context) {
    float x = 1, y = 0;
    const Request right{
        .collective = Collective::allreduce, .input = in(&x, 1), .output = out(&y, 1)};
    std::map<const char*, Request> wrong;
    const auto with = [&](const char* what) -> Request& { return wrong[what] = right; };
    with("type").input.type = static_cast<DataType>(77);
    with("operator").op = static_cast<ReduceOp>(77);
    with("algorithm").algorithm = static_cast<AllreduceAlgorithm>(77);
    with("bits").bits = static_cast<Bits>(77);
    with("compression").compression = static_cast<Compression>(77);
    with("operation").collective = static_cast<Collective>(77);
    Named named = context.named().value();
    for (const auto& [what, request] : wrong) {
      expect_names(context.run(request), Code::invalid_argument, {what, "number 77"});
      expect_names(context.start(request).status(), Code::invalid_argument, {what, "number 77"});
      expect_names(context.prepare(request).status(), Code::invalid_argument, {what, "number 77"});
      expect_names(named.start("w", request).status(), Code::invalid_argument, {what, "number 77"});
    }
    const Output window{&y, 1, static_cast<DataType>(77)};
    expect_names(context.win_create(window, "w").status(), Code::invalid_argument,
                 {"type", "number 77"});
    EXPECT_TRUE(context.run(right).ok());
    EXPECT_TRUE(named.end().ok());
  });
}

}  // namespace
}  // namespace weft
