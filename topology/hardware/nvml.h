// The functions of NVIDIA's management library that tell about GPUs, loaded at run time: a host
// without it still starts, and no header of CUDA is needed to build. Internal to the module; tests
// put a table of their own in its place.
#pragma once

#include <cstdint>

#include "topology/hardware/hardware.h"

namespace weft::hardware {

// As nvml.h has it, version 3.
struct NvmlPci {
  char legacy[16];
  std::uint32_t domain, bus, device, ids, subsystem;
  char address[32];  // "00000000:3B:00.0"
};
static_assert(sizeof(NvmlPci) == 68);

struct NvmlMemory {
  std::uint64_t total, free, used;
};

// All answer 0 when they are well.
struct Nvml {
  using Device = void*;
  int (*init)();
  int (*shutdown)();
  int (*count)(std::uint32_t*);
  int (*by_index)(std::uint32_t, Device*);
  int (*model)(Device, char* text, std::uint32_t bytes);
  int (*memory)(Device, NvmlMemory*);
  int (*pci)(Device, NvmlPci*);
  int (*link_state)(Device, std::uint32_t link, std::uint32_t* active);
  int (*link_version)(Device, std::uint32_t link, std::uint32_t*);
  int (*link_peer)(Device, std::uint32_t link, NvmlPci*);
  // Null in versions that have none.
  int (*uuid)(Device, char* text, std::uint32_t bytes);
  int (*most_migs)(Device, std::uint32_t*);
  int (*mig_by_index)(Device, std::uint32_t, Device*);
};

// GPUs by NVML's order, with what connects them. What it does not answer stays unknown.
void ask(const Nvml& nvml, Machine& machine);

}  // namespace weft::hardware
