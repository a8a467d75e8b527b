// GPUs and NVLink from NVIDIA's management library.
#include "topology/hardware/nvml.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "topology/hardware/sources.h"
#include "verbs/base/base.h"

namespace weft::hardware {
namespace {

constexpr std::uint32_t kMostLinks = 18;  // of one GPU, as NVML has it
constexpr std::uint32_t kMostGpus = 64;
constexpr std::uint32_t kMostMigs = 32;  // of one GPU
// One link, one way, by version: 1 (P100), 2 to 4 (V100 to H100), 5 (B200).
constexpr double kFirstRate = 20.0, kRate = 25.0, kFifthRate = 50.0;

// The library stays loaded: it is the driver's, and other users of it may come.
bool load(Nvml& nvml) {
  return DynamicLibrary("libnvidia-ml.so.1")
      .find("nvmlInit_v2", nvml.init)
      .find("nvmlShutdown", nvml.shutdown)
      .find("nvmlDeviceGetCount_v2", nvml.count)
      .find("nvmlDeviceGetHandleByIndex_v2", nvml.by_index)
      .find("nvmlDeviceGetName", nvml.model)
      .find("nvmlDeviceGetMemoryInfo", nvml.memory)
      .find("nvmlDeviceGetPciInfo_v3", nvml.pci)
      .find("nvmlDeviceGetNvLinkState", nvml.link_state)
      .find("nvmlDeviceGetNvLinkVersion", nvml.link_version)
      .find("nvmlDeviceGetNvLinkRemotePciInfo_v2", nvml.link_peer)
      .find_newer("nvmlDeviceGetUUID", nvml.uuid)
      .find_newer("nvmlDeviceGetMaxMigDeviceCount", nvml.most_migs)
      .find_newer("nvmlDeviceGetMigDeviceHandleByIndex", nvml.mig_by_index)
      .status("NVML cannot be used here")
      .ok();
}

// As the kernel writes it.
std::string address_of(const NvmlPci& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

struct Handle {
  Nvml::Device device;
  std::string address;
};

std::vector<Handle> handles(const Nvml& nvml) {
  std::vector<Handle> found;
  std::uint32_t count = 0;
  if (nvml.count(&count) != 0) return found;
  for (std::uint32_t i = 0; i < std::min(count, kMostGpus); ++i) {
    Handle handle{};
    NvmlPci pci{};
    if (nvml.by_index(i, &handle.device) != 0 || nvml.pci(handle.device, &pci) != 0) continue;
    handle.address = address_of(pci);
    found.push_back(std::move(handle));
  }
  return found;
}

std::string uuid_of(const Nvml& nvml, Nvml::Device device) {
  char uuid[96] = {};  // as long as NVML has it
  return nvml.uuid != nullptr && nvml.uuid(device, uuid, sizeof uuid - 1) == 0 ? uuid : "";
}

std::vector<std::string> mig_uuids_of(const Nvml& nvml, Nvml::Device device) {
  std::vector<std::string> uuids;
  std::uint32_t most = 0;
  if (nvml.most_migs == nullptr || nvml.mig_by_index == nullptr ||
      nvml.most_migs(device, &most) != 0)
    return uuids;
  for (std::uint32_t i = 0; i < std::min(most, kMostMigs); ++i) {
    Nvml::Device mig = nullptr;
    if (nvml.mig_by_index(device, i, &mig) != 0) continue;
    if (std::string uuid = uuid_of(nvml, mig); !uuid.empty()) uuids.push_back(std::move(uuid));
  }
  return uuids;
}

// hwloc's GPU of that address, or a new one; the index is NVML's.
Gpu described(const Nvml& nvml, const Handle& handle, const Machine& machine) {
  Gpu gpu;
  const auto known = std::ranges::find(machine.gpus, handle.address,
                                       [](const Gpu& each) { return each.place.address; });
  if (known != machine.gpus.end()) gpu = *known;
  gpu.place.address = handle.address;
  char model[96] = {};
  if (nvml.model(handle.device, model, sizeof model - 1) == 0) gpu.model = model;
  NvmlMemory memory{};
  if (nvml.memory(handle.device, &memory) == 0) gpu.memory_bytes = memory.total;
  gpu.uuid = uuid_of(nvml, handle.device);
  gpu.mig_uuids = mig_uuids_of(nvml, handle.device);
  return gpu;
}

double rate_of(std::uint32_t version) {
  return version <= 1 ? kFirstRate : version <= 4 ? kRate : kFifthRate;
}

// Links to one and the same peer are one connection of several lanes. Whoever is no GPU of ours is
// a switch: their ports have addresses of their own.
void add_links(const Nvml& nvml, const std::vector<Handle>& all, std::size_t index,
               Machine& machine) {
  std::map<int, GpuLink> by_peer;
  for (std::uint32_t link = 0; link < kMostLinks; ++link) {
    std::uint32_t active = 0, version = 0;
    NvmlPci pci{};
    const Nvml::Device device = all[index].device;
    if (nvml.link_state(device, link, &active) != 0 || active == 0) continue;
    if (nvml.link_version(device, link, &version) != 0) continue;
    if (nvml.link_peer(device, link, &pci) != 0) continue;
    const auto peer = std::ranges::find(all, address_of(pci), &Handle::address);
    const int to = peer == all.end() ? GpuLink::kSwitch : static_cast<int>(peer - all.begin());
    GpuLink& one = by_peer[to];
    one.gpu = static_cast<int>(index);
    one.peer = to;
    ++one.lanes;
    one.gbyte_per_s += rate_of(version);
  }
  for (const auto& [peer, link] : by_peer) machine.gpu_links.push_back(link);
}

}  // namespace

void ask(const Nvml& nvml, Machine& machine) {
  const std::vector<Handle> all = handles(nvml);
  std::vector<Gpu> gpus;
  for (const Handle& handle : all) gpus.push_back(described(nvml, handle, machine));
  for (const Gpu& gpu : machine.gpus) {  // other makers'
    if (std::ranges::find(all, gpu.place.address, &Handle::address) == all.end())
      gpus.push_back(gpu);
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].index = static_cast<int>(i);
  machine.gpus = std::move(gpus);
  for (std::size_t i = 0; i < all.size(); ++i) add_links(nvml, all, i, machine);
  machine.are_gpu_links_known = !all.empty();
}

void ask_nvml(Machine& machine) {
  static Nvml nvml{};
  static const bool is_here = load(nvml);
  if (!is_here || nvml.init() != 0) return;
  ask(nvml, machine);
  nvml.shutdown();
}

}  // namespace weft::hardware
