// Fixed bits inside a machine: the bits of the sum in rank order, by whatever way.
#include "tests/context/bits.h"

#include "tests/context/outcomes.h"

namespace weft {
namespace {

constexpr std::size_t kCounts[] = {1, 3, 77, 5000, 40'001};

TEST(Bits, OfAnotherOrderDiffer) {
  const std::vector<Rank> up{0, 1, 2, 3}, down{3, 2, 1, 0};
  EXPECT_NE(expected_bits(DataType::f32, 77, ReduceOp::sum, up),
            expected_bits(DataType::f32, 77, ReduceOp::sum, down));
}

class FixedBits : public testing::TestWithParam<int> {};

TEST_P(FixedBits, AreThoseOfTheSumInRankOrder) {
  run_job(
      GetParam(),
      [](Context& context) {
        for (const std::size_t count : kCounts) {
          for (const bool is_private : {false, true})
            check_fixed_bits(context, DataType::f32, count, is_private);
        }
        check_fixed_bits(context, DataType::bf16, 5000, false);
        check_fixed_bits(context, DataType::f64, 5000, false);
      },
      with_fixed_bits());
}

INSTANTIATE_TEST_SUITE_P(Ranks, FixedBits, testing::Values(2, 3, 5, 9, 16),
                         testing::PrintToStringParamName());

TEST(FixedBitsOnLanes, AreTheSame) {
  for (const int lanes : {1, 2, 4}) {
    Config config = with_fixed_bits();
    config.lanes = lanes;
    run_job(
        3,
        [](Context& context) {
          check_fixed_bits(context, DataType::f32, (std::size_t{5} << 20) / sizeof(float) + 3,
                           false);
        },
        config);
  }
}

// A reduce of little data on more than eight ranks is otherwise a tree.
TEST(FixedBitsOfACall, AreThoseOfTheSumInRankOrder) {
  run_job(12, [](Context& context) {
    for (const std::size_t count : {1UL, 700UL}) {
      Elements x(DataType::f32, count, false), y(DataType::f32, count, false);
      fill_unevenly(x, count, context.rank());
      const Status status = context.run({.collective = Collective::reduce,
                                         .input = x.input(),
                                         .output = y.output(),
                                         .op = ReduceOp::sum,
                                         .bits = Bits::fixed,
                                         .root = 3});
      ASSERT_TRUE(status.ok()) << status.to_string();
      if (context.rank() != 3) continue;
      ASSERT_TRUE(y.bits() == expected_bits(DataType::f32, count, ReduceOp::sum, ranks_below(12)));
    }
    EXPECT_NE(context.explain().find("fixed bits"), std::string::npos) << context.explain();
  });
}

TEST(FixedBitsAndAlgorithms, ExcludeEachOther) {
  const auto statuses = outcomes(2, [](Context& context) {
    float x = 1, y = 0;
    return context.run({.collective = Collective::allreduce,
                        .input = in(&x, 1),
                        .output = out(&y, 1),
                        .algorithm = AllreduceAlgorithm::ring,
                        .bits = Bits::fixed});
  });
  for (const Status& status : statuses)
    expect_names(status, Code::invalid_argument, {"ring", "rank order"});
}

class DifferentBits : public testing::TestWithParam<Collective> {};

TEST_P(DifferentBits, AreAnErrorOfAllRanks) {
  std::vector<Status> statuses(3);
  run_job_with(
      3, [](Rank rank) { return rank == 1 ? with_fixed_bits() : test_config(); },
      [&](Context& context) {
        Array<float> x(6, false), y(6, false);
        const bool is_scatter = GetParam() == Collective::reduce_scatter;
        Status status = context.run({.collective = GetParam(),
                                     .input = in(x.data(), 6),
                                     .output = out(y.data(), is_scatter ? 2 : 6),
                                     .op = ReduceOp::sum,
                                     .root = 0});
        if (status.ok()) status = context.barrier();
        statuses[static_cast<std::size_t>(context.rank())] = status;
      });
  bool is_told = false;
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
    is_told |= status.text().find("WEFT_BITS") != std::string_view::npos;
  }
  EXPECT_TRUE(is_told) << statuses[0].to_string();
}

INSTANTIATE_TEST_SUITE_P(Operations, DifferentBits,
                         testing::Values(Collective::allreduce, Collective::local_allreduce,
                                         Collective::reduce, Collective::reduce_scatter),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace weft
