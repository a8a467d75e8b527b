// Operations of some ranks and of parts, called wrongly: errors that name the thing, on every side
// that is concerned, and never wrong data.
#include <cmath>
#include <latch>

#include "tests/context/outcomes.h"

namespace weft {
namespace {

Config impatient() {
  Config config = test_config();
  config.deadline_ms = 300;
  return config;
}

TEST(PartsArguments, AreCheckedBeforeAnythingMoves) {
  run_job(2, [](Context& context) {
    float x[4] = {1, 2, 3, 4}, y[8] = {};
    std::int32_t i[4] = {}, j[2] = {};
    const std::size_t one[] = {4}, wrong[] = {3, 3}, huge[] = {4, 5};
    const auto bad = Code::invalid_argument;
    expect_names(context.allgather(in(x, 4), out(y, 7)), bad, {"allgather", "8", "7"});
    expect_names(context.allgather(in(x, 4), out(y, 8), one), bad, {"1 counts for 2 ranks"});
    expect_names(context.allgather(in(x, 4), out(y, 6), wrong), bad, {"count is 3", "4"});
    expect_names(context.allgather(in(y + 2, 4), out(y, 8)), bad, {"overlap"});
    expect_names(context.reduce_scatter(in(i, 4), out(j, 2)), bad, {"average", "i32"});
    expect_names(context.reduce_scatter(in(x, 4), out(y, 3)), bad, {"count is 2", "3"});
    expect_names(context.reduce_scatter(in(x, 4), out(y, 2), ReduceOp::bit_or), bad, {"f32"});
    expect_names(context.reduce(in(x, 4), out(y, 4), 2), bad, {"root 2", "0…1"});
    expect_names(context.gather(in(x, 4), out(y, 8), -1), bad, {"root -1"});
    expect_names(context.scatter(in(y, 8), out(x, 4), 5), bad, {"root 5"});
    expect_names(context.alltoall(in(x, 3), out(y, 3)), bad, {"equal blocks", "2 ranks"});
    expect_names(context.alltoallv(in(x, 4), out(y, 4), one, wrong), bad, {"1 counts"});
    expect_names(context.alltoallv(in(x, 4), out(y, 6), wrong, wrong), bad, {"6", "4"});
    if (context.rank() == 0) {
      expect_names(context.gather(in(x, 4), out(y, 8), 0, huge), bad, {"9", "8"});
      expect_names(context.reduce(in(x, 4), out(y, 3), 0), bad, {"4", "3"});
    }
    EXPECT_TRUE(context.barrier().ok());
    EXPECT_EQ(y[0], 0.0F);
  });
}

TEST(PartialArguments, AreCheckedBeforeAnythingMoves) {
  run_job(2, [](Context& context) {
    float x[4] = {1, 2, 3, 4}, y[4] = {};
    std::int32_t i[2] = {}, j[2] = {};
    const Rank self = context.rank(), peer = 1 - self;
    const Rank without[] = {peer}, twice[] = {self, peer, peer}, stranger[] = {self, 9};
    const auto bad = Code::invalid_argument;
    expect_names(context.send(in(x, 4), self), bad, {"send", "another of the ranks 0…1"});
    expect_names(context.send(in(x, 4), 7), bad, {"rank 7"});
    expect_names(context.recv(out(y, 4), -1), bad, {"recv", "rank -1"});
    expect_names(context.recv(out<float>(nullptr, 4), peer), bad, {"null"});
    expect_names(context.pair_average(in(x, 4), out(y, 4), self), bad, {"pair_average"});
    expect_names(context.pair_average(in(i, 2), out(j, 2), peer), bad, {"i32"});
    expect_names(context.pair_average(in(x, 4), out(y, 3), peer), bad, {"4", "3"});
    expect_names(context.pair_average(in(x, 4), out(y, 4), peer, 0.5, std::nan("")), bad, {"nan"});
    expect_names(context.group_average(in(x, 4), out(y, 4), without), bad, {"not in its group"});
    expect_names(context.group_average(in(x, 4), out(y, 4), twice), bad, {"twice"});
    expect_names(context.group_average(in(x, 4), out(y, 4), stranger), bad, {"rank 9"});
    expect_names(context.group_average(in(i, 2), out(j, 2), twice), bad, {"i32"});
    EXPECT_TRUE(context.barrier().ok());
    EXPECT_EQ(y[0], 0.0F);
  });
}

TEST(PartsMismatch, OfCountsIsAnErrorOnBothSides) {
  const auto statuses = outcomes(2, [](Context& context) {
    float x[8] = {}, y[8] = {};
    const std::size_t mine[] = {4, context.rank() == 0 ? 3UL : 4UL};
    const std::size_t own = mine[static_cast<std::size_t>(context.rank())];
    // Rank 1 has what it expects, and learns of the other's error in its next call.
    const Status status = context.allgather(in(x, own), out(y, mine[0] + mine[1]), mine);
    return status.ok() ? context.barrier() : status;
  });
  expect_names(statuses[0], Code::mismatch, {"rank 1", "16", "12"});
  EXPECT_EQ(statuses[1].code(), Code::mismatch) << statuses[1].to_string();
}

// The receiver's error reaches the sender in its next call, when its message was small enough to go
// ahead.
Status send_then_meet(Context& context, const Input& x, const Output& y) {
  Status status = context.rank() == 0 ? context.send(x, 1) : context.recv(y, 0);
  if (status.ok()) status = context.barrier();
  return status;
}

TEST(PartialMismatch, OfSizesAndTypesIsAnErrorOnBothSides) {
  for (const std::size_t count : {1UL, 1000UL, 200'000UL}) {
    const auto sizes = outcomes(2, [&](Context& context) {
      Array<float> x(2 * count, false), y(count, false);
      return send_then_meet(context, in(x.data(), 2 * count), out(y.data(), count));
    });
    expect_names(sizes[1], Code::mismatch, {"send/recv", "rank 0"});
    expect_names(sizes[0], Code::mismatch, {"send/recv", "told by rank 1"});
    const auto types = outcomes(2, [&](Context& context) {
      Array<float> x(2 * count, false);
      Array<double> y(count, false);
      return send_then_meet(context, in(x.data(), 2 * count), out(y.data(), count));
    });
    expect_names(types[1], Code::mismatch, {"f32", "f64"});
    EXPECT_EQ(types[0].code(), Code::mismatch) << types[0].to_string();
  }
}

TEST(PartialMismatch, OfOperationsAndGroupsIsAnErrorOnBothSides) {
  const auto kinds = outcomes(2, [](Context& context) {
    float x = 1, y = 2;
    const Rank both[] = {0, 1};
    return context.rank() == 0 ? context.pair_average(in(&x, 1), out(&y, 1), 1)
                               : context.group_average(in(&x, 1), out(&y, 1), both);
  });
  expect_names(kinds[0], Code::mismatch, {"pair_average", "group_average"});
  expect_names(kinds[1], Code::mismatch, {"pair_average", "group_average"});
  const auto groups = outcomes(3, [](Context& context) {
    float x = 1, y = 2;
    const Rank two[] = {0, 1}, all[] = {0, 1, 2};
    return context.rank() == 0 ? context.group_average(in(&x, 1), out(&y, 1), two)
                               : context.group_average(in(&x, 1), out(&y, 1), all);
  });
  expect_names(groups[0], Code::mismatch, {"group_average", "rank 1"});
  for (const Status& status : groups) EXPECT_EQ(status.code(), Code::mismatch);
}

// A message that nobody received is no part of the average that comes after it.
TEST(PartialMismatch, AForgottenMessageIsNotTakenForAnother) {
  const auto statuses = outcomes(2, [](Context& context) {
    float x = 1, y = 2;
    if (context.rank() == 0) WEFT_RETURN_IF_ERROR(context.send(in(&x, 1), 1));
    const Status status = context.pair_average(in(&x, 1), out(&y, 1), 1 - context.rank());
    return status.ok() ? context.barrier() : status;
  });
  expect_names(statuses[1], Code::mismatch, {"pair_average", "send/recv"});
  EXPECT_EQ(statuses[0].code(), Code::mismatch);
}

// Runs `body` on rank 0 of two, while rank 1 does nothing until that is over.
Status alone(const std::function<Status(Context&)>& body) {
  std::latch over(1);
  return outcomes(
      2,
      [&](Context& context) {
        if (context.rank() == 1) {
          over.wait();
          return Status{};
        }
        Status status = body(context);
        over.count_down();
        return status;
      },
      impatient())[0];
}

TEST(PartialDeadline, NamesWhoNeverCame) {
  float x = 1, y = 2;
  Array<float> large(100'000, false);
  const Rank both[] = {0, 1};
  const auto late = Code::timed_out;
  expect_names(alone([&](Context& c) { return c.recv(out(&y, 1), 1); }), late,
               {"send/recv", "data from rank 1", "300 ms"});
  expect_names(alone([&](Context& c) { return c.send(in(large.data(), large.size()), 1); }), late,
               {"send/recv", "rank 1 to read its data"});
  expect_names(alone([&](Context& c) { return c.pair_average(in(&x, 1), out(&y, 1), 1); }), late,
               {"pair_average", "rank 1"});
  expect_names(alone([&](Context& c) { return c.group_average(in(&x, 1), out(&y, 1), both); }),
               late, {"group_average", "rank 1"});
  // More small messages than the receiver has slots for.
  expect_names(alone([&](Context& c) {
                 for (int k = 0; k < 100; ++k) WEFT_RETURN_IF_ERROR(c.send(in(&x, 1), 1));
                 return Status{};
               }),
               late, {"send/recv", "rank 1 to read its data"});
}

TEST(PartialDeadline, EndsACircleOfWaits) {
  std::latch all_waited(3);  // who gives up first does not leave before the others' own deadline
  const auto statuses = outcomes(
      3,
      [&](Context& context) {
        float x = 1, y = 2;
        Status status = context.pair_average(in(&x, 1), out(&y, 1), (context.rank() + 1) % 3);
        all_waited.arrive_and_wait();
        return status;
      },
      impatient());
  for (const Status& status : statuses)
    EXPECT_EQ(status.code(), Code::timed_out) << status.to_string();
}

TEST(PartialFailure, EndsWhatWaitsBehindIt) {
  std::latch started(1);
  const auto statuses = outcomes(2, [&](Context& context) {
    if (context.rank() == 1) {
      started.wait();
      return Status{};
    }
    Array<float> x(100'000, false);
    auto first = context.send_start(in(x.data(), x.size()), 1);
    auto second = context.send_start(in(x.data(), x.size()), 1);
    started.count_down();
    EXPECT_FALSE(first->wait().ok());
    return second->wait();
  });
  EXPECT_EQ(statuses[0].code(), Code::peer_left) << statuses[0].to_string();
}

}  // namespace
}  // namespace weft
