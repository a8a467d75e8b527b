// How GPU memory would travel along the edges of a map (docs/gpu.md), as far as the hardware says.
// Internal to the command.
#pragma once

#include <optional>
#include <string>

#include "tools/weft/map/map.h"

namespace weft {

struct GpuWay {
  int from = 0, to = 0;  // Gpu::index
  std::string way;       // "CUDA IPC over NVLink, 200 GB/s"
};
// Whether a machine has any.
[[nodiscard]] bool has_gpus(const ShownMap& shown);
// Nothing: one of the ranks has no GPU.
[[nodiscard]] std::optional<GpuWay> gpu_way(const ShownMap& shown, const MappedEdge& edge);

}  // namespace weft
