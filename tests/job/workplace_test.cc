// Where ranks work, and how far their interfaces are from there, on machines that are made up.
#include "engine/job/workplace.h"

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
  const ShownGpus all = shown_gpus(machine, {}, {});
  return {std::move(machine), node_of_process, {}, all};
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

// Three GPUs, of which the second is cut in parts.
Machine three_gpus() {
  Machine machine;
  for (int index : {0, 1, 2}) {
    Gpu gpu;
    gpu.index = index;
    gpu.model = "H100";
    gpu.place.address = "0000:" + std::to_string(index + 1) + "0:00.0";
    machine.gpus.push_back(gpu);
  }
  return machine;
}
Machine three_of_nvidia() {
  Machine machine = three_gpus();
  machine.gpus[0].uuid = "GPU-aaaa";
  machine.gpus[1].uuid = "GPU-bbbb";
  machine.gpus[2].uuid = "GPU-abcd";
  machine.gpus[1].mig_uuids = {"MIG-1111", "MIG-2222"};
  return machine;
}

using Indices = std::vector<int>;

GpuVariables variables(std::optional<std::string> cuda, std::optional<std::string> hip = {},
                       std::optional<std::string> rocr = {}) {
  return {std::move(cuda), std::move(hip), std::move(rocr), false};
}

Indices by_cuda(const std::string& list) {
  return shown_gpus(three_of_nvidia(), variables(list, "0", "0"), {}).gpus;
}

TEST(ShownGpus, AreThoseOfTheVariable) {
  EXPECT_EQ(by_cuda("1,0"), (Indices{1, 0}));
  EXPECT_EQ(by_cuda("2, 0"), (Indices{2, 0}));
  EXPECT_EQ(by_cuda("2,-1,0"), Indices{2}) << "what is none ends the list";
  EXPECT_EQ(by_cuda("0,7"), Indices{0});
  EXPECT_EQ(by_cuda(""), Indices());
  EXPECT_EQ(by_cuda("GPU-bb,GPU-aaaa"), (Indices{1, 0})) << "cut short";
  EXPECT_EQ(by_cuda("MIG-2222"), Indices{1});
  EXPECT_EQ(by_cuda("MIG-GPU-bbbb/1/0"), Indices{1}) << "as older drivers call it";
  EXPECT_EQ(shown_gpus(three_gpus(), {}, {}).gpus, (Indices{0, 1, 2}));
  EXPECT_EQ(shown_gpus(three_gpus(), {}, {}).by, "");
  EXPECT_EQ(shown_gpus(Machine(), variables("1"), {}).gpus, Indices());
}

TEST(ShownGpus, OfAmdAreCountedAmongThoseThatTheRuntimeLeaves) {
  const Machine machine = three_gpus();
  EXPECT_EQ(shown_gpus(machine, variables(std::nullopt, "1,0", "2,0"), {}).gpus, (Indices{0, 2}));
  EXPECT_EQ(shown_gpus(machine, variables("0", "2"), {}).gpus, Indices{2});
  EXPECT_EQ(shown_gpus(machine, variables("2"), {}).by, "CUDA_VISIBLE_DEVICES=2");
}

TEST(ShownGpus, WhatCannotBeFollowedIsSaid) {
  const ShownGpus unknown = shown_gpus(three_of_nvidia(), variables("GPU-cccc"), {});
  EXPECT_EQ(unknown.unknown, "CUDA_VISIBLE_DEVICES=GPU-cccc: no GPU here is known as GPU-cccc");
  EXPECT_EQ(unknown.gpus, (Indices{0, 1, 2}));
  Machine mixed = three_of_nvidia();
  mixed.gpus[2].model = "T4";
  EXPECT_FALSE(shown_gpus(mixed, variables("1"), {}).unknown.empty()) << "the fastest first";
  GpuVariables by_bus = variables("1");
  by_bus.is_by_bus = true;
  EXPECT_EQ(shown_gpus(mixed, by_bus, {}).gpus, Indices{1});
  EXPECT_EQ(shown_gpus(mixed, variables("GPU-bbbb"), {}).gpus, Indices{1});
}

TEST(ShownGpus, TheDriverKnowsBest) {
  std::vector<GpuDevice> driver(2);
  driver[0].address = "0000:30:00.0";
  driver[1].address = "0000:10:00.0";
  const ShownGpus shown = shown_gpus(three_of_nvidia(), variables("GPU-cccc"), driver);
  EXPECT_EQ(shown.gpus, (Indices{2, 0}));
  EXPECT_EQ(shown.by, "the driver");
  driver[1].address = "0000:99:00.0";
  EXPECT_EQ(shown_gpus(three_gpus(), variables("1"), driver).gpus, Indices{1});
}

TEST(Workplace, IsAmongTheGpusThatTheProcessSees) {
  Surroundings here = two_sockets(0);
  here.shown = shown_gpus(here.machine, variables("1,0"), {});
  EXPECT_EQ(*workplace_of(local(0, 2), here), (Workplace{1, -1}));
  EXPECT_EQ(*workplace_of(local(1, 2), here), (Workplace{0, -1}));
  here.shown = shown_gpus(here.machine, variables("1"), {});
  EXPECT_EQ(*workplace_of(local(0, 2), here), (Workplace{1, -1}));
  EXPECT_EQ(*workplace_of(Config(), here), (Workplace{1, -1})) << "whatever the local rank is";
  here.shown = shown_gpus(here.machine, variables(""), {});
  EXPECT_EQ(*workplace_of(local(1, 2), here), (Workplace{-1, 0})) << "none";
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
  none.shown = {};
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
