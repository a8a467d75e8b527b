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
struct GpuAbilities {
  std::vector<GpuAbility> gpus;
  std::string unknown;       // why nothing is known
  bool has_peermem = false;  // the kernel has nvidia-peermem
};

// A GPU and the RDMA port that is nearest to it: GPUDirect RDMA goes from one to the other.
struct GpuAndPort {
  int gpu = 0;
  std::string port, text;  // what PCI does in between
};
[[nodiscard]] std::vector<GpuAndPort> gpus_and_ports(const Machine& machine);

// Loads the driver.
[[nodiscard]] GpuAbilities gpu_abilities();
// A line for each GPU.
[[nodiscard]] std::string abilities_text(const GpuAbilities& abilities);
[[nodiscard]] std::string text(const std::vector<GpuAndPort>& pairs);

}  // namespace weft
