// shown_gpus: which GPUs of this machine the driver shows to this process. Launchers and users hide the
// others (CUDA_VISIBLE_DEVICES), and a rank numbers what is left from 0.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "topology/hardware/hardware.h"
#include "verbs/cuda/cuda.h"

namespace weft {

struct ShownGpus {
  std::vector<int> gpus;  // by the driver's number here: Gpu::index
  std::string by;         // who says so: "CUDA_VISIBLE_DEVICES=1,0"; empty: nobody hides any
  std::string unknown;    // why what somebody says cannot be followed; `gpus` has all then
};

// By the driver, if `driver` has its GPUs and the machine has all of them. Else by the variables. Pure.
//  - Entries are numbers or UUIDs, which may be cut short; the first one that is neither ends the list.
//  - A MIG device is a part of the GPU that has it.
//  - CUDA numbers GPUs by their addresses if CUDA_DEVICE_ORDER=PCI_BUS_ID, else the fastest first, so that
//    numbers say nothing where models differ.
//  - HIP counts among those that ROCR_VISIBLE_DEVICES leaves, and reads CUDA_VISIBLE_DEVICES, too.
[[nodiscard]] ShownGpus shown_gpus(const Machine& machine, const GpuVariables& variables,
                                   std::span<const GpuDevice> driver);

}  // namespace weft
