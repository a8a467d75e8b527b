// Distances between devices, from the bridges above them.
#include "tests/hardware/machines.h"

namespace weft {
namespace {

class Places : public testing::Test {
 protected:
  void SetUp() override {
    Result<Machine> read = read_machine(eight_gpus());
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    machine_ = std::move(read).value();
    ASSERT_EQ(machine_.gpus.size(), 8U);
  }
  [[nodiscard]] Distance from_gpu(std::size_t gpu, std::string_view to) const {
    return distance(machine_.gpus[gpu].place, nic(machine_, to).place);
  }

  Machine machine_;
};

TEST_F(Places, ASwitchIsNearest) {
  EXPECT_EQ(from_gpu(0, "mlx5_0").nearness, Nearness::one_switch);
  EXPECT_EQ(from_gpu(0, "mlx5_1").nearness, Nearness::one_switch);
  EXPECT_EQ(from_gpu(7, "mlx5_7").nearness, Nearness::one_switch);
  EXPECT_EQ(from_gpu(0, "mlx5_0").bridges, 3);  // two ports and the switch
}

TEST_F(Places, OtherSwitchesAreReachedThroughTheProcessor) {
  EXPECT_EQ(from_gpu(0, "mlx5_2").nearness, Nearness::numa_node);
  EXPECT_EQ(from_gpu(0, "mlx5_4").nearness, Nearness::machine);
  EXPECT_EQ(from_gpu(0, "eno1").nearness, Nearness::numa_node);
}

TEST_F(Places, TheSlowestLinkCounts) {
  EXPECT_NEAR(from_gpu(0, "mlx5_0").gbyte_per_s, 63.0, 0.1);
  EXPECT_NEAR(from_gpu(0, "eno1").gbyte_per_s, 3.9, 0.1);
}

TEST_F(Places, ADeviceIsNearItsNode) {
  EXPECT_EQ(distance(machine_.gpus[0].place, machine_.nodes[0]), Nearness::numa_node);
  EXPECT_EQ(distance(machine_.gpus[0].place, machine_.nodes[1]), Nearness::machine);
}

TEST_F(Places, IsSymmetric) {
  for (const Gpu& a : machine_.gpus) {
    for (const Nic& b : machine_.nics) {
      EXPECT_EQ(distance(a.place, b.place).nearness, distance(b.place, a.place).nearness);
      EXPECT_EQ(distance(a.place, b.place).bridges, distance(b.place, a.place).bridges);
    }
  }
}

TEST(Processors, AreOfANode) {
  const Result<Machine> machine = read_machine(eight_gpus());
  ASSERT_TRUE(machine.ok());
  ASSERT_FALSE(machine->nodes[1].processors.empty());
  const int processor = machine->nodes[1].processors.front();
  ASSERT_NE(node_of(*machine, processor), nullptr);
  EXPECT_EQ(node_of(*machine, processor)->index, 1);
  EXPECT_EQ(node_of(*machine, 100'000), nullptr);
  const PciPlace& near = nic(*machine, "mlx5_7").place;
  const PciPlace& far = nic(*machine, "mlx5_0").place;
  EXPECT_EQ(distance(near, *machine, processor), Nearness::numa_node);
  EXPECT_EQ(distance(far, *machine, processor), Nearness::machine);
  EXPECT_EQ(distance(near, *machine, 100'000), Nearness::machine);
}

// What hypervisors show of a link says nothing.
TEST(PlacesOfOnes, PciMayCarryLessThanAnInterface) {
  Machine machine;
  Nic card;
  card.rdma = "mlx5_0";
  card.mbit_per_s = 400'000;
  card.place = {"0000:3b:00.0", 63, "0000:3a", {{"0000:3a:00.0", 15.75}, {"0000:3a:01.0", 0}}};
  EXPECT_EQ(carried_mbit_per_s(card), 126'000);
  machine.nics = {card};
  ASSERT_EQ(remarks_on(machine).size(), 1U);
  EXPECT_EQ(remarks_on(machine)[0].about, "slowed down by PCI");
  EXPECT_EQ(remarks_on(machine)[0].phrases,
            std::vector<std::string>{"mlx5_0 to 126 of its 400 Gbit/s"});
  card.place.bridges[0].gbyte_per_s = 0.25;
  EXPECT_EQ(carried_mbit_per_s(card), 400'000);
  card.mbit_per_s = -1;
  EXPECT_EQ(carried_mbit_per_s(card), -1);
}

TEST(PlacesOfOnes, FunctionsOfACardAreTheSameDevice) {
  PciPlace first{"0000:3b:00.0", 16, "0000:3a", {{"0000:3a:00.0", 16}}, 0, 0};
  PciPlace second = first;
  second.address = "0000:3b:00.1";
  EXPECT_EQ(distance(first, second).nearness, Nearness::same_device);
  EXPECT_EQ(distance(first, second).bridges, 0);
}

TEST(PlacesOfOnes, CascadedSwitchesAreFartherThanOne) {
  const PciPlace near{"0000:20:00.0", 16, "0000:10", {{"a", 16}, {"b", 16}, {"c", 16}}, 0, 0};
  const PciPlace far{
      "0000:30:00.0", 16, "0000:10", {{"a", 16}, {"d", 16}, {"e", 16}, {"f", 16}}, 0, 0};
  EXPECT_EQ(distance(near, far).nearness, Nearness::switches);
}

TEST(PlacesOfOnes, WhatIsNotOnPciIsNearByItsNodeOnly) {
  PciPlace one, two;
  EXPECT_EQ(distance(one, two).nearness, Nearness::machine);
  one.numa_node = two.numa_node = 1;
  EXPECT_EQ(distance(one, two).nearness, Nearness::numa_node);
  EXPECT_EQ(distance(one, two).gbyte_per_s, 0);
}

}  // namespace
}  // namespace weft
