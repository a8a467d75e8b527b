// What the GPUs of this machine can do for Weft: what the driver says, and what Weft has for them.
// Internal to the command.
#pragma once

#include <string>
#include <vector>

#include "topology/hardware/hardware.h"
#include "verbs/cuda/cuda.h"

namespace weft {

struct GpuAbility {
  GpuDevice gpu;
  std::string no_kernels;  // why Weft has none for it; empty: it has
};
// A GPU and the RDMA port that is nearest to it: GPUDirect RDMA goes from one to the other.
struct GpuAndPort {
  int gpu = 0;
  std::string port, text;  // what PCI does in between
};
struct GpuAbilities {
  std::vector<GpuAbility> gpus;
  std::vector<GpuAndPort> pairs;
  std::string unknown;       // why nothing is known
  bool has_peermem = false;  // the kernel has nvidia-peermem
};

// Loads the driver. `machine`: this one.
[[nodiscard]] GpuAbilities gpu_abilities(const Machine& machine);
// A line for each GPU, and for each pair.
[[nodiscard]] std::string abilities_text(const GpuAbilities& abilities);

}  // namespace weft
