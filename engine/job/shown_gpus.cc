// shown_gpus: see the header.
#include "engine/job/shown_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace weft {
namespace {

// The indices of the driver's GPUs; nothing if the machine has not all of them.
std::optional<std::vector<int>> by_driver(const Machine& machine,
                                          std::span<const GpuDevice> driver) {
  std::vector<int> gpus;
  for (const GpuDevice& device : driver) {
    const auto gpu = std::ranges::find(machine.gpus, device.address,
                                       [](const Gpu& each) { return each.place.address; });
    if (device.address.empty() || gpu == machine.gpus.end()) return std::nullopt;
    gpus.push_back(gpu->index);
  }
  return gpus.empty() ? std::nullopt : std::optional(gpus);
}

bool is_of(const Gpu& gpu, std::string_view uuid) {
  const auto begins = [uuid](const std::string& own) { return own.starts_with(uuid); };
  // "MIG-GPU-8932f937-…/1/0", as older drivers have it.
  constexpr std::string_view kOldMig = "MIG-GPU-";
  if (uuid.starts_with(kOldMig))
    return !gpu.uuid.empty() && uuid.substr(4, uuid.find('/') - 4) == gpu.uuid;
  return begins(gpu.uuid) || std::ranges::any_of(gpu.mig_uuids, begins);
}

bool have_one_model(const Machine& machine) {
  return std::ranges::all_of(
      machine.gpus, [&machine](const Gpu& gpu) { return gpu.model == machine.gpus.front().model; });
}

// A list of the user's, read entry by entry.
class List {
 public:
  List(const Machine& machine, bool has_order) : machine_(machine), has_order_(has_order) {}

  // Replaces `gpus` by those of them that the list names. The text says what is not understood.
  std::string apply(std::string_view list, std::vector<int>& gpus) const {
    std::vector<int> named;
    while (!list.empty()) {
      const std::size_t comma = std::min(list.find(','), list.size());
      const std::string_view entry = trimmed(list.substr(0, comma));
      list.remove_prefix(std::min(comma + 1, list.size()));
      std::optional<int> gpu;
      if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) {
        const auto found = std::ranges::find_if(
            machine_.gpus, [entry](const Gpu& each) { return is_of(each, entry); });
        if (found == machine_.gpus.end()) return fmt::format("no GPU here is known as {}", entry);
        gpu = found->index;
      } else {
        gpu = numbered(entry, gpus);
        if (gpu && !has_order_)
          return "GPUs of different models are numbered by speed, unless "
                 "CUDA_DEVICE_ORDER=PCI_BUS_ID";
      }
      if (!gpu) break;
      named.push_back(*gpu);
    }
    gpus = std::move(named);
    return {};
  }

 private:
  static std::string_view trimmed(std::string_view text) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    return text;
  }

  static std::optional<int> numbered(std::string_view entry, const std::vector<int>& gpus) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
    const bool is_number = error == std::errc() && end == entry.data() + entry.size();
    return is_number && number < gpus.size() ? std::optional(gpus[number]) : std::nullopt;
  }

  const Machine& machine_;
  bool has_order_;
};

// NVIDIA's library tells the UUID of each of its GPUs.
bool is_nvidia(const Machine& machine) {
  return std::ranges::any_of(machine.gpus, [](const Gpu& gpu) { return !gpu.uuid.empty(); });
}

}  // namespace

ShownGpus shown_gpus(const Machine& machine, const GpuVariables& variables,
                     std::span<const GpuDevice> driver) {
  ShownGpus shown;
  for (const Gpu& gpu : machine.gpus) shown.gpus.push_back(gpu.index);
  const std::vector<int> all = shown.gpus;
  if (all.empty()) return shown;
  if (std::optional<std::vector<int>> told = by_driver(machine, driver)) {
    if (*told != all) shown.by = "the driver";
    shown.gpus = *std::move(told);
    return shown;
  }
  const auto apply = [&](std::string_view name, const std::optional<std::string>& list,
                         bool has_order) {
    if (!list || !shown.unknown.empty()) return;
    const std::string said = fmt::format("{}={}", name, *list);
    const std::string unknown = List(machine, has_order).apply(*list, shown.gpus);
    if (!unknown.empty()) shown.unknown = fmt::format("{}: {}", said, unknown);
    shown.by += shown.by.empty() ? said : ", " + said;
  };
  const bool has_cuda_order = variables.is_by_bus || have_one_model(machine);
  if (!is_nvidia(machine)) {
    apply("ROCR_VISIBLE_DEVICES", variables.rocr, true);
    apply("HIP_VISIBLE_DEVICES", variables.hip, true);
  }
  if (is_nvidia(machine) || !variables.hip)
    apply("CUDA_VISIBLE_DEVICES", variables.cuda, has_cuda_order);
  if (!shown.unknown.empty()) {
    shown.gpus = all;
    shown.by.clear();
  }
  return shown;
}

}  // namespace weft
