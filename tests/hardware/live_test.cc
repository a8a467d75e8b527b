// This machine, whatever it is, and its way through a file.
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

TEST(ThisMachine, IsTheSameFromItsFile) {
  const Result<Machine> machine = discover_machine();
  const Result<std::string> xml = export_machine();
  ASSERT_TRUE(machine.ok());
  ASSERT_TRUE(xml.ok()) << xml.status().to_string();
  const TextFile file(*xml);
  const Result<Machine> again = read_machine(file.path());
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->cores, machine->cores);
  EXPECT_EQ(again->nodes.size(), machine->nodes.size());
  ASSERT_EQ(again->nics.size(), machine->nics.size());
  for (std::size_t i = 0; i < machine->nics.size(); ++i) {
    EXPECT_EQ(again->nics[i].name(), machine->nics[i].name());
    EXPECT_EQ(again->nics[i].netdev, machine->nics[i].netdev);
    EXPECT_EQ(again->nics[i].mbit_per_s, machine->nics[i].mbit_per_s);
    EXPECT_EQ(again->nics[i].place.address, machine->nics[i].place.address);
    EXPECT_EQ(again->nics[i].place.numa_node, machine->nics[i].place.numa_node);
  }
}

}  // namespace
}  // namespace weft
