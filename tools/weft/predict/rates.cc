// A cluster of machines that have nothing but interfaces.
#include "tools/weft/predict/rates.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "scheduler/stripes/stripes.h"
#include "tools/weft/predict/judge.h"
#include "tools/weft/predict/options.h"

namespace weft {
namespace {

Cluster cluster_of(const RatedScene& scene) {
  constexpr double kMbit = 1e3, kRdmaUs = 2, kOtherUs = 20;
  std::set<std::string> names;
  for (const RatedHost& host : scene.hosts)
    for (const auto& [name, gbit] : host.gbit_per_s) names.insert(name);
  Cluster cluster;
  for (std::size_t i = 0; i < scene.hosts.size(); ++i) {
    const RatedHost& host = scene.hosts[i];
    auto machine = std::make_shared<Machine>();
    machine->source = host.name;
    for (const std::string& name : names) {
      Nic nic;
      (scene.is_rdma ? nic.rdma : nic.netdev) = name;
      const auto rate = host.gbit_per_s.find(name);
      nic.mbit_per_s =
          rate == host.gbit_per_s.end() ? 0 : static_cast<int>(std::lround(rate->second * kMbit));
      machine->nics.push_back(nic);
    }
    cluster.machines.push_back(
        {std::to_string(i), machine, static_cast<int>(i) * scene.ranks, scene.ranks});
  }
  int number = 0;
  for (const std::string& name : names) {
    Rail rail;
    rail.name = name;
    rail.latency_us = scene.is_rdma ? kRdmaUs : kOtherUs;
    for (const ClusterMachine& machine : cluster.machines) {
      const double gbit =
          machine.hardware->nics[static_cast<std::size_t>(number)].mbit_per_s / kMbit;
      rail.nics.push_back(gbit > 0 ? number : -1);
      rail.gbit_per_s.push_back(gbit);
    }
    // One that a single host has leads nowhere.
    if (std::ranges::count(rail.nics, number) > 1) cluster.rails.push_back(std::move(rail));
    ++number;
  }
  // Where there are GPUs they combine, faster than any network.
  constexpr double kGpuGbyte = 500;
  if (scene.has_gpus) cluster.memory.combine_gbyte_per_s = cluster.memory.gbyte_per_s = kGpuGbyte;
  return cluster;
}

}  // namespace

Result<double> allreduce_us(const RatedScene& scene) {
  const Cluster cluster = cluster_of(scene);
  WEFT_ASSIGN(const PredictScene predicted,
              set_scene(cluster, Placement::identity(cluster.ranks()), RailPolicy::automatic, "",
                        Collective::allreduce));
  PredictedCase of;
  of.bytes = scene.bytes;
  of.lanes = automatic_lanes(static_cast<int>(cluster.rails.size()), scene.ranks,
                             std::max(scene.cores, 1));
  SimulateOptions options;
  options.piece_bytes = network_piece(cluster);
  return mean_us(of, predicted, options);
}

}  // namespace weft
