// What the environment says of the GPUs that drivers show to this process.
#include <algorithm>

#include "engine/config/config.h"

namespace weft {
namespace {

std::optional<std::string> value_of(const std::vector<std::string>& entries,
                                    const std::string& name) {
  const std::string begin = name + "=";
  const auto found = std::ranges::find_if(
      entries, [&begin](const std::string& entry) { return entry.starts_with(begin); });
  if (found == entries.end()) return std::nullopt;
  return found->substr(begin.size());
}

}  // namespace

GpuVariables gpu_variables(const std::vector<std::string>& entries) {
  return {value_of(entries, "CUDA_VISIBLE_DEVICES"), value_of(entries, "HIP_VISIBLE_DEVICES"),
          value_of(entries, "ROCR_VISIBLE_DEVICES"),
          value_of(entries, "CUDA_DEVICE_ORDER") == "PCI_BUS_ID"};
}

}  // namespace weft
