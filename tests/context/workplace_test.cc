// Where ranks work, and how far their interfaces are from there, on machines that are made up.
#include "engine/context/workplace.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

PciPlace below(const std::string& host_bridge, const std::string& address, int node) {
  PciPlace place;
  place.address = address;
  place.host_bridge = host_bridge;
  place.numa_node = node;
  return place;
}

// Two nodes with a GPU and an interface on either.
Surroundings two_sockets(int node_of_process) {
  Machine machine;
  machine.nodes = {{.index = 0, .cores = 8}, {.index = 1, .cores = 8}};
  for (int node : {0, 1}) {
    const std::string bus = "0000:" + std::to_string(node + 1) + "0";
    Nic nic;
    nic.rdma = "mlx5_" + std::to_string(node);
    nic.netdev = "eth" + std::to_string(node);
    nic.mbit_per_s = 100'000;
    nic.place = below(bus, bus + ":01.0", node);
    machine.nics.push_back(nic);
    Gpu gpu;
    gpu.index = node;
    gpu.place = below(bus, bus + ":02.0", node);
    machine.gpus.push_back(gpu);
  }
  return {std::move(machine), node_of_process};
}

Config local(int rank, int size) {
  Config config;
  config.local_rank = rank;
  config.local_size = size;
  config.size = size;
  return config;
}

TEST(Workplace, IsTheGpuOfTheLocalRank) {
  const Surroundings here = two_sockets(0);
  EXPECT_EQ(*workplace_of(local(1, 2), here), (Workplace{1, -1}));
  EXPECT_EQ(*workplace_of(local(2, 4), here), (Workplace{0, -1}));
}

// A thread is bound to what is known alone.
TEST(Workplace, NodesThatAreGuessedAreNotTold) {
  EXPECT_EQ(told_node(two_sockets(-1), {1, -1}), 1) << "the GPU's";
  EXPECT_EQ(told_node(two_sockets(0), {1, -1}), 0) << "the process is bound there";
  EXPECT_EQ(told_node(two_sockets(-1), {-1, 1}), -1) << "cores in blocks, perhaps";
}

TEST(Workplace, IsWhatTheUserSays) {
  Config config = local(0, 2);
  config.gpu = 1;
  EXPECT_EQ(*workplace_of(config, two_sockets(0)), (Workplace{1, -1}));
  config.gpu = 2;
  const Status status = workplace_of(config, two_sockets(0)).status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.text().find("WEFT_GPU=2: this machine has GPUs up to 1"), std::string::npos)
      << status.text();
  Surroundings none = two_sockets(0);
  none.machine.gpus.clear();
  EXPECT_NE(workplace_of(config, none).status().text().find("no GPU"), std::string::npos);
}

TEST(Workplace, IsTheNodeOfTheCoresWithoutAGpu) {
  Config config = local(0, 2);
  config.gpu = -1;
  EXPECT_EQ(*workplace_of(config, two_sockets(1)), (Workplace{-1, 1})) << "as it is bound";
  EXPECT_EQ(*workplace_of(config, two_sockets(-1)), (Workplace{-1, 0})) << "cores in blocks";
  EXPECT_EQ(*workplace_of(Config(), two_sockets(1)), (Workplace{-1, 1})) << "no local rank";
  EXPECT_EQ(*workplace_of(Config(), two_sockets(-1)), Workplace());
}

TEST(Workplace, DistancesAreThoseOfTheMachine) {
  const Machine machine = two_sockets(0).machine;
  const Workplace gpu{1, -1};
  EXPECT_LT(distance_to(machine, gpu, "mlx5_1").far, distance_to(machine, gpu, "mlx5_0").far);
  EXPECT_EQ(distance_to(machine, gpu, "mlx5_1"), distance_to(machine, gpu, "eth1"));
  EXPECT_EQ(distance_to(machine, gpu, "eth1").mbit_per_s, 100'000);
  EXPECT_GE(distance_to(machine, gpu, "tun0").far, distance_to(machine, gpu, "mlx5_0").far);
  EXPECT_EQ(distance_to(machine, {}, "eth0").far, distance_to(machine, {}, "eth1").far);
  EXPECT_EQ(how_near(machine, gpu, "mlx5_1"), "mlx5_1 and GPU 1 are below one host bridge");
  EXPECT_EQ(how_near(machine, {-1, 0}, "mlx5_1"), "mlx5_1 and node 0 are across NUMA nodes");
  EXPECT_EQ(how_near(machine, {}, "mlx5_1"), "mlx5_1, distance unknown");
}

}  // namespace
}  // namespace weft
