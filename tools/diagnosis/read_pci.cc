// Links, configuration and peers on PCI.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "tools/diagnosis/read.h"
#include "verbs/cuda/cuda.h"

namespace weft::diagnosis {
namespace {

// "0000:3b:00.0"
bool is_pci_address(const std::string& name) {
  constexpr std::string_view kShape = "xxxx:xx:xx.x";
  return std::ranges::equal(name, kShape, [](char have, char want) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    return want == 'x' ? kDigits.find(have) != std::string_view::npos : have == want;
  });
}

// "16.0 GT/s PCIe"; "Unknown" in virtual machines.
double rate_in(const std::string& line) {
  double rate = 0;
  const char* const end = line.data() + line.size();
  return std::from_chars(line.data(), end, rate).ec == std::errc{} && rate > 0 && rate < 1e4 ? rate
                                                                                             : 0;
}

// A width that is not known is 255 for some kernels.
int lanes_in(const fs::path& path) {
  constexpr int kMostLanes = 32;
  const std::int64_t lanes = number(path).value_or(0);
  return lanes > 0 && lanes <= kMostLanes ? static_cast<int>(lanes) : 0;
}

PciLink link_of(const fs::path& device) {
  return {device.filename(), rate_in(text(device / "current_link_speed")),
          rate_in(text(device / "max_link_speed")), lanes_in(device / "current_link_width"),
          lanes_in(device / "max_link_width")};
}

// Bit 4 of the control register of PCI Express. Its place is found by a list of capabilities, of
// which only root may read more than the beginning.
int relaxed_ordering_in(const std::string& configuration) {
  constexpr std::size_t kList = 0x34, kControl = 8, kFirst = 0x40;
  constexpr int kExpress = 0x10, kMostCapabilities = 48;
  const auto byte = [&configuration](std::size_t at) {
    return at < configuration.size() ? static_cast<unsigned char>(configuration[at]) : -1;
  };
  int at = byte(kList);
  for (int seen = 0; seen < kMostCapabilities && at >= static_cast<int>(kFirst); ++seen) {
    const auto place = static_cast<std::size_t>(at & ~3);
    if (byte(place) == kExpress) {
      const int control = byte(place + kControl);
      return control < 0 ? -1 : control >> 4 & 1;
    }
    at = byte(place + 1);
  }
  return -1;
}

std::uint32_t hex_in(const std::string& line) {
  std::uint32_t value = 0;
  const std::size_t skip = line.starts_with("0x") ? 2 : 0;
  std::from_chars(line.data() + skip, line.data() + line.size(), value, 16);
  return value;
}

constexpr std::uint32_t kNvidia = 0x10de, kAmd = 0x1002;

bool is_gpu(std::uint32_t pci_class, std::uint32_t vendor) {
  constexpr std::uint32_t kDisplay = 0x0300, k3d = 0x0302, kOtherDisplay = 0x0380,
                          kAccelerator = 0x1200;
  const std::uint32_t kind = pci_class >> 8;
  if (vendor == kNvidia) return kind == kDisplay || kind == k3d;
  return vendor == kAmd && (kind == kOtherDisplay || kind == kAccelerator || kind == k3d);
}

// The driver says itself what it is: "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86 …".
// Open modules export dma-bufs from Linux 5.12 on.
int exports_dma_buf(const Root& root) {
  if (root.is_live) {
    const Result<std::vector<GpuDevice>> gpus = gpu_devices();
    if (gpus.ok() && !gpus->empty())
      return std::ranges::all_of(*gpus, &GpuDevice::exports_dma_buf) ? 1 : 0;
  }
  const std::string version = text(root.path / "proc/driver/nvidia/version");
  return version.find("Open Kernel Module") == std::string::npos ? -1 : 1;
}

PeerFacts peer_of(const Root& root, const GpuFacts& gpu, const PciPlace& from, const NicFacts& nic,
                  const PciPlace& to, HostFacts& facts) {
  const PeerTraffic traffic = peer_traffic(from, to, root.sys());
  if (!traffic.unreadable.empty() && traffic.redirecting.empty()) {
    facts.not_checked.push_back({fmt::format("ACS between GPU {} and {}", gpu.index, nic.name),
                                 fmt::format("only root may read the configuration of {}",
                                             fmt::join(traffic.unreadable, ", "))});
  }
  return {gpu.index,
          nic.name,
          traffic.has_common_bridge,
          traffic.redirecting,
          traffic.translates && traffic.passes_translated,
          traffic.is_behind_iommu && !traffic.translates};
}

void read_peers(const Root& root, HostFacts& facts) {
  std::vector<std::pair<const NicFacts*, PciPlace>> ports;
  for (const NicFacts& nic : facts.nics)
    if (!nic.rdma.empty() && !nic.pci.address.empty())
      ports.emplace_back(&nic, read_pci(root, nic.pci.address).place);
  if (ports.empty()) return;
  for (const GpuFacts& gpu : facts.gpus) {
    const PciPlace place = read_pci(root, gpu.pci.address).place;
    const auto far = [&place](const auto& port) {
      const Distance to = distance(place, port.second);
      return std::pair(to.nearness, to.bridges);
    };
    const auto& [nic, to] = *std::ranges::min_element(ports, {}, far);
    facts.peers.push_back(peer_of(root, gpu, place, *nic, to, facts));
  }
}

}  // namespace

// The kernel's name of a device is the way to it: "…/pci0000:3a/0000:3a:00.0/0000:3b:00.0".
PciDevice read_pci(const Root& root, const std::string& address) {
  PciDevice device;
  device.facts.address = device.place.address = address;
  std::error_code error;
  fs::path at = fs::canonical(root.sys() / "bus/pci/devices" / address, error);
  if (address.empty() || error) return device;
  device.facts.node = device.place.numa_node =
      static_cast<int>(number(at / "numa_node").value_or(-1));
  device.facts.iommu = text(at / "iommu_group/type");
  device.facts.relaxed_ordering = relaxed_ordering_in(bytes(at / "config", 256));
  for (; is_pci_address(at.filename()); at = at.parent_path()) {
    device.facts.links.push_back(link_of(at));
    if (at.filename() == address) continue;
    device.place.bridges.insert(device.place.bridges.begin(),
                                {at.filename(), device.facts.links.back().gbit_per_s() / 8});
  }
  if (const std::string top = at.filename(); top.starts_with("pci"))
    device.place.host_bridge = top.substr(3);
  return device;
}

void read_gpus(const Root& root, HostFacts& facts) {
  for (const std::string& address : names(root.sys() / "bus/pci/devices")) {
    const fs::path device = root.sys() / "bus/pci/devices" / address;
    const std::uint32_t vendor = hex_in(text(device / "vendor"));
    if (!is_gpu(hex_in(text(device / "class")), vendor)) continue;
    GpuFacts gpu{static_cast<int>(facts.gpus.size()), "", vendor == kNvidia,
                 read_pci(root, address).facts};
    gpu.model = after(root.path / "proc/driver/nvidia/gpus" / address / "information", "Model:");
    facts.gpus.push_back(std::move(gpu));
  }
  if (facts.gpus.empty()) return;
  facts.has_nvidia = is_there(root.path / "proc/driver/nvidia");
  const fs::path modules = root.sys() / "module";
  facts.has_peermem = is_there(modules / "nvidia_peermem") || is_there(modules / "nv_peer_mem");
  if (facts.has_nvidia) facts.dma_buf = exports_dma_buf(root);
  for (const char* module : {"nvidia", "amdgpu"})
    if (const std::string told = text(modules / module / "version"); !told.empty())
      facts.versions[std::string("driver ") + module] = told;
  read_peers(root, facts);
}

}  // namespace weft::diagnosis
