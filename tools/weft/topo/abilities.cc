// What GPUs can do, found out and told.
#include "tools/weft/topo/abilities.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "engine/gpu_kernels/gpu_kernels.h"

namespace weft {

GpuAbilities gpu_abilities() {
  GpuAbilities found;
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
  if (!abilities.unknown.empty())
    return fmt::format("\nwhat GPUs can do is unknown: {}\n", abilities.unknown);
  std::string text = "\nwhat GPUs can do:\n";
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
  return text;
}

}  // namespace weft
