// Machines are made of little: what a choice of rails looks at.
#include "tests/rails/fabric.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

constexpr int kMbit = 100'000;

std::shared_ptr<const Machine> machine_with(int nics) {
  Machine machine;
  machine.source = fmt::format("{} interfaces", nics);
  for (int n = 0; n < nics; ++n) {
    Nic nic;
    nic.netdev = fmt::format("eth{}", n);
    nic.mbit_per_s = kMbit;
    machine.nics.push_back(nic);
  }
  return std::make_shared<const Machine>(machine);
}

}  // namespace

Cluster fabric(FabricShape shape) {
  Cluster cluster = uniform_cluster(machine_with(shape.rails), shape.machines, shape.ranks).value();
  for (Rail& rail : cluster.rails) rail.latency_us = 2;
  return cluster;
}

Cluster with_rdma(Cluster cluster, int rails) {
  Machine machine = *cluster.machines.front().hardware;
  for (int rail = 0; rail < rails; ++rail) {
    const int nic = cluster.rails[static_cast<std::size_t>(rail)].nics.front();
    machine.nics[static_cast<std::size_t>(nic)].rdma = fmt::format("mlx5_{}", rail);
  }
  const auto shared = std::make_shared<const Machine>(machine);
  for (ClusterMachine& one : cluster.machines) one.hardware = shared;
  return cluster;
}

Cluster tree(TreeShape shape) {
  Cluster cluster = fabric(
      {.machines = shape.leaves * shape.machines_per_leaf, .ranks = shape.ranks, .rails = 1});
  Rail& rail = cluster.rails.front();
  rail.levels = {{.machines = shape.machines_per_leaf,
                  .oversubscription = shape.oversubscription,
                  .latency_us = 1}};
  rail.stride = shape.in_turn ? shape.leaves : 1;
  return cluster;
}

Cluster three_levels(int stride) {
  Cluster cluster = fabric({.machines = 16, .ranks = 1, .rails = 1});
  Rail& rail = cluster.rails.front();
  rail.levels = {{.machines = 2, .oversubscription = 2, .latency_us = 1},
                 {.machines = 4, .oversubscription = 8, .latency_us = 2},
                 {.machines = 8, .oversubscription = 32, .latency_us = 4}};
  rail.stride = stride;
  return cluster;
}

Cluster bcube_fabric(int base, int rails) {
  int machines = 1;
  for (int level = 0; level < rails; ++level) machines *= base;
  Cluster cluster = fabric({.machines = machines, .ranks = 1, .rails = rails});
  int stride = 1;
  for (Rail& rail : cluster.rails) {
    rail.levels = {{.machines = base}};
    rail.stride = stride;
    rail.has_top = false;
    stride *= base;
  }
  return cluster;
}

Cluster eight_gpus(const std::vector<std::string>& absent) {
  Cluster cluster;
  const Machine whole = read_machine(WEFT_EXAMPLES "/machines/8gpu-8nic.xml").value();
  cluster.rails.resize(8);
  for (const std::string& missing : absent) {
    Machine machine = whole;
    std::erase_if(machine.nics, [&](const Nic& nic) { return nic.name() == missing; });
    const int number = static_cast<int>(cluster.machines.size());
    for (std::size_t r = 0; r < cluster.rails.size(); ++r) {
      Rail& rail = cluster.rails[r];
      rail.name = fmt::format("{}", r);
      const auto found = std::ranges::find(machine.nics, fmt::format("mlx5_{}", r), &Nic::name);
      const bool has = found != machine.nics.end();
      rail.nics.push_back(has ? static_cast<int>(found - machine.nics.begin()) : -1);
      rail.gbit_per_s.push_back(has ? 400 : 0);
    }
    cluster.machines.push_back(
        {fmt::format("node{}", number), std::make_shared<const Machine>(machine), 8 * number, 8});
  }
  return cluster;
}

}  // namespace weft
