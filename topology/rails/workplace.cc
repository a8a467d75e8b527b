// Where ranks work, how far that is from the machine's interfaces, and the sentence that says so.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "topology/rails/rails.h"

namespace weft {
namespace {

const Gpu* gpu_at(const Machine& machine, Workplace place) {
  const auto found = std::ranges::find(machine.gpus, place.gpu, &Gpu::index);
  return found == machine.gpus.end() ? nullptr : &*found;
}

const NumaNode* node_at(const Machine& machine, Workplace place) {
  const auto found = std::ranges::find(machine.nodes, place.node, &NumaNode::index);
  return found == machine.nodes.end() ? nullptr : &*found;
}

bool is_told(const Nic& nic) {
  return !nic.place.address.empty() || nic.place.numa_node >= 0;
}

}  // namespace

Workplace usual_workplace(const Machine& machine, int rank, int ranks) {
  if (!machine.gpus.empty())
    return {machine.gpus[static_cast<std::size_t>(rank) % machine.gpus.size()].index, -1};
  const auto sum = [](int cores, const NumaNode& node) { return cores + node.cores; };
  const int cores = std::accumulate(machine.nodes.begin(), machine.nodes.end(), 0, sum);
  int first = static_cast<int>(std::int64_t{cores} * rank / ranks);
  for (const NumaNode& node : machine.nodes) {
    if (first < node.cores) return {-1, node.index};
    first -= node.cores;
  }
  return {};
}

std::string name(const Machine& machine, Workplace place) {
  if (gpu_at(machine, place) != nullptr) return fmt::format("GPU {}", place.gpu);
  if (node_at(machine, place) != nullptr) return fmt::format("node {}", place.node);
  return {};
}

// Nearness first, then the bridges on the way.
int how_far(const Machine& machine, Workplace place, const Nic& nic) {
  constexpr int kMoreThanBridges = 1000;
  if (const Gpu* gpu = gpu_at(machine, place)) {
    const Distance far = distance(nic.place, gpu->place);
    return kMoreThanBridges * static_cast<int>(far.nearness) + far.bridges;
  }
  const NumaNode* node = node_at(machine, place);
  return node == nullptr ? 0 : kMoreThanBridges * static_cast<int>(distance(nic.place, *node));
}

std::string how_near(const Machine& machine, Workplace place, const Nic& nic) {
  const std::string here = name(machine, place);
  if (here.empty() || !is_told(nic)) return nic.name() + ", distance unknown";
  const Gpu* gpu = gpu_at(machine, place);
  const Nearness near = gpu != nullptr ? distance(nic.place, gpu->place).nearness
                                       : distance(nic.place, *node_at(machine, place));
  return fmt::format("{} and {} are {}", nic.name(), here, description(near));
}

}  // namespace weft
