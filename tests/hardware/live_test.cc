// This machine, whatever it is.
#include "tests/hardware/machines.h"

namespace weft {
namespace {

TEST(ThisMachine, HasCoresAndMemory) {
  const Result<Machine> machine = discover_machine();
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_GE(machine->threads, 1);
  EXPECT_GT(machine->memory_bytes, std::uint64_t{1} << 20);
  EXPECT_FALSE(machine->nodes.empty());
  EXPECT_EQ(machine->source, "this machine");
}

}  // namespace
}  // namespace weft
