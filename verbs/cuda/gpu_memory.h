// GPU memory, as the module's parts name it.
#pragma once

namespace weft {

// Memory that only a GPU reads. Managed and pinned memory are for a CPU, too.
struct GpuMemory {
  int device = 0;           // by CUDA's number
  void* context = nullptr;  // CUDA's
};

}  // namespace weft
