// What GPUs can do, found out and told.
#include "tools/weft/topo/abilities.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "engine/gpu_kernels/gpu_kernels.h"

namespace weft {

namespace {

std::vector<GpuAndPort> gpus_and_ports(const Machine& machine) {
  std::vector<GpuAndPort> pairs;
  for (const Gpu& gpu : machine.gpus) {
    const Nic* nearest = nullptr;
    const auto far = [&](const Nic& nic) {
      const Distance to = distance(gpu.place, nic.place);
      return std::pair(to.nearness, to.bridges);
    };
    for (const Nic& nic : machine.nics) {
      if (nic.rdma.empty() || nic.place.address.empty()) continue;
      if (nearest == nullptr || far(nic) < far(*nearest)) nearest = &nic;
    }
    if (nearest == nullptr || gpu.place.address.empty()) continue;
    pairs.push_back(
        {gpu.index, nearest->name(), describe(peer_traffic(gpu.place, nearest->place))});
  }
  return pairs;
}

}  // namespace

GpuAbilities gpu_abilities(const Machine& machine) {
  GpuAbilities found;
  found.pairs = gpus_and_ports(machine);
  const Result<std::vector<GpuDevice>> gpus = gpu_devices();
  if (!gpus.ok()) {
    found.unknown = gpus.status().text();
    return found;
  }
  for (const GpuDevice& gpu : *gpus) {
    const Status kernels = GpuKernels::check(gpu);
    found.gpus.push_back({gpu, std::string(kernels.text())});
  }
  std::error_code ignored;
  found.has_peermem = std::filesystem::exists("/sys/module/nvidia_peermem", ignored);
  return found;
}

std::string abilities_text(const GpuAbilities& abilities) {
  std::string text = abilities.unknown.empty()
                         ? std::string("\nwhat GPUs can do:\n")
                         : fmt::format("\nwhat GPUs can do is unknown: {}\n", abilities.unknown);
  for (const GpuAbility& each : abilities.gpus) {
    const GpuDevice& gpu = each.gpu;
    text += fmt::format("  GPU {} [{}] {}: ", gpu.number, gpu.address, gpu.name);
    text += each.no_kernels.empty() ? "adds up with Weft's kernels"
                                    : fmt::format("does not add up ({})", each.no_kernels);
    text += gpu.reads.empty() ? "; reads no other GPU"
                              : fmt::format("; reads GPU {}", fmt::join(gpu.reads, ", "));
    text += gpu.exports_dma_buf ? "; exports dma-bufs" : "; exports no dma-bufs";
    text += abilities.has_peermem ? "; nvidia-peermem is loaded\n" : "; no nvidia-peermem\n";
  }
  if (!abilities.pairs.empty()) text += "\nbetween GPUs and RDMA ports (GPUDirect RDMA):\n";
  for (const GpuAndPort& pair : abilities.pairs)
    text += fmt::format("  GPU {} and {}: {}\n", pair.gpu, pair.port, pair.text);
  return text;
}

}  // namespace weft
