// Fixed bits between machines, over UCX and shared memory: the same bits as inside one, however ranks are
// divided among machines.
#include "tests/context/bits.h"
#include "tests/context/cluster.h"

namespace weft {
namespace {

TEST(FixedBitsOfMachines, AreThoseOfOneMachine) {
  for (const std::vector<int>& machines : {std::vector{0, 1},
                                           {0, 1, 2, 3},
                                           {0, 0, 1, 1},
                                           {0, 1, 0, 1, 2},
                                           {0, 0, 0, 1},
                                           {0, 1, 1, 1},
                                           {0, 0, 1, 1, 2, 2}}) {
    run_machines(
        machines,
        [](Context& context) {
          for (const std::size_t count : {1UL, 77UL, 5000UL, 200'001UL})
            check_fixed_bits(context, DataType::f32, count, false);
          check_fixed_bits(context, DataType::bf16, 200'001, false);
        },
        with_fixed_bits());
  }
}

TEST(FixedBitsOfMachines, OnSeveralLanes) {
  Config config = with_fixed_bits();
  config.lanes = 2;
  run_machines(
      {0, 0, 1, 1},
      [](Context& context) {
        check_fixed_bits(context, DataType::f32, (std::size_t{3} << 20) / sizeof(float) + 1, false);
      },
      config);
}

// Tensors that travel together get the bits that each has alone.
TEST(FixedBitsOfMachines, OfFusedTensors) {
  run_machines(
      {0, 0, 1, 1},
      [](Context& context) {
        Result<Named> named = context.named();
        ASSERT_TRUE(named.ok()) << named.status().to_string();
        const std::size_t counts[] = {1, 40, 3000, 70'001};
        std::vector<std::unique_ptr<Elements>> inputs, outputs;
        std::vector<Handle> handles;
        for (const std::size_t count : counts) {
          inputs.push_back(std::make_unique<Elements>(DataType::f32, count, false));
          outputs.push_back(std::make_unique<Elements>(DataType::f32, count, false));
          fill_unevenly(*inputs.back(), count, context.rank());
          const Result<Handle> handle = named->start("tensor " + std::to_string(count),
                                                     Request{.collective = Collective::allreduce,
                                                             .input = inputs.back()->input(),
                                                             .output = outputs.back()->output(),
                                                             .op = ReduceOp::sum});
          ASSERT_TRUE(handle.ok()) << handle.status().to_string();
          handles.push_back(*handle);
        }
        for (std::size_t i = 0; i < handles.size(); ++i) {
          ASSERT_TRUE(handles[i].wait().ok());
          EXPECT_TRUE(outputs[i]->bits() ==
                      expected_bits(DataType::f32, counts[i], ReduceOp::sum, ranks_below(4)));
        }
      },
      with_fixed_bits());
}

}  // namespace
}  // namespace weft
