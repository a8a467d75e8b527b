// network: devices, and the bond of their rails.
#include "bindings/nccl/network.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "verbs/base/base.h"
#include "verbs/bond/bond.h"
#include "verbs/cuda/cuda.h"
#include "verbs/device/device.h"

namespace weft::nccl {
namespace {

// Control notices, and what the receiver asks for.
constexpr std::uint32_t kChannels = 2;
// Keys of regions: one of 64 bytes for each rail.
constexpr std::size_t kPayloadBytes = 4032;

std::string pci_path(const std::string& address) {
  if (address.empty()) return {};
  std::error_code ignored;
  const auto path = std::filesystem::canonical("/sys/bus/pci/devices/" + address, ignored);
  return ignored ? std::string() : path.string();
}

// "9803:9b03:00ab:cdef" as a number; else a number of the name.
std::uint64_t guid_of(std::string text, std::string_view name) {
  std::erase(text, ':');
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && number != 0 ? number : fnv1a64(name);
}

// Without its prefix. Empty: the interface is down, or has none.
std::string address_of(const NetworkInterface& interface) {
  if (interface.state == "down") return {};
  return interface.ip.substr(0, interface.ip.find('/'));
}

Device device_of(const NetworkRail& rail, std::span<const RdmaPort> ports,
                 std::span<const NetworkInterface> interfaces) {
  Device device;
  device.name = rail.name;
  device.kind = rail.member.kind;
  for (const RdmaPort& port : ports) {
    const std::string name =
        port.port == 1 ? port.device : fmt::format("{}:{}", port.device, port.port);
    if (device.kind != "ib" || name != rail.name) continue;
    device.pci_path = pci_path(port.pci);
    device.guid = guid_of(port.node_guid, port.device);
    device.port = port.port;
    device.mbit_per_s = port.mbit_per_s;
    for (const NetworkInterface& each : interfaces) {
      if (each.name == port.netdev) device.address = address_of(each);
    }
    return device;
  }
  device.guid = fnv1a64(rail.name);
  for (const NetworkInterface& each : interfaces) {
    if (each.name != rail.name) continue;
    device.pci_path = pci_path(each.pci);
    device.mbit_per_s = each.mbit_per_s;
    device.address = address_of(each);
  }
  return device;
}

InterfaceOptions options_of(std::uint32_t job, const Config& config) {
  InterfaceOptions options;
  options.channels = kChannels;
  options.slots = static_cast<std::uint32_t>(config.rail_slots);
  options.payload_bytes = kPayloadBytes;
  options.job = job;
  return options;
}

// The rails of the first kind that there is: two ends use one kind.
Result<std::vector<NetworkRail>> rails_of(const Config& config, std::uint32_t job) {
  WEFT_ASSIGN(std::vector<NetworkRail> rails, network_rails(config, options_of(job, config)));
  const std::string kind = rails.front().member.kind;
  std::erase_if(rails, [&kind](const NetworkRail& rail) { return rail.member.kind != kind; });
  return rails;
}

}  // namespace

Result<std::unique_ptr<Network>> Network::open() {
  WEFT_ASSIGN(Config config, Config::from_environment());
  // Who this rank is, NCCL knows.
  config.size = 2;
  Transports& ways = config.transports;
  if (ways.automatic) ways.ib = ways.ucx = true;
  std::unique_ptr<Network> made(new Network(std::move(config)));
  WEFT_RETURN_IF_ERROR(made->find_devices());
  return made;
}

Status Network::find_devices() {
  WEFT_ASSIGN(const std::vector<NetworkRail> rails, rails_of(config_, 0));
  const std::vector<RdmaPort> ports = list_rdma_ports();
  std::vector<NetworkInterface> interfaces = discover_interfaces();
  const Result<int> pointers = gpu_pointers(rails);
  gpu_status_ = pointers.status();
  for (const NetworkRail& rail : rails) {
    devices_.push_back(device_of(rail, ports, interfaces));
    if (pointers.ok()) devices_.back().pointers |= *pointers;
  }
  const auto rank_of = [](const NetworkInterface& each) {
    return each.is_card() ? 0 : each.kind == "loopback" ? 2 : 1;
  };
  std::ranges::stable_sort(interfaces, {}, rank_of);
  for (const NetworkInterface& each : interfaces) {
    if (std::string address = address_of(each); !address.empty())
      other_addresses_.push_back(std::move(address));
  }
  if (!addresses(0).empty()) return {};
  return Status(Code::unavailable, "no network interface of this machine has an IP address");
}

std::vector<std::string> Network::addresses(int device) const {
  std::vector<std::string> found;
  const std::size_t count = devices_.size();
  for (std::size_t k = 0; k < count; ++k) {
    const std::string& address = devices_[(static_cast<std::size_t>(device) + k) % count].address;
    if (!address.empty() && std::ranges::find(found, address) == found.end())
      found.push_back(address);
  }
  return found.empty() ? other_addresses_ : found;
}

// A message may take any rail, so all have to reach it.
Result<int> Network::gpu_pointers(std::span<const NetworkRail> rails) const {
  if (!config_.gpu_rdma) return Status(Code::unavailable, "WEFT_GPU_RDMA is off");
  Status dma_bufs;
  for (const NetworkRail& rail : rails) {
    if (!rail.reaches_gpus)
      return Status(Code::unavailable, fmt::format("{} sends host memory alone", rail.name));
    if (dma_bufs.ok()) dma_bufs = rail.reaches_gpus();
  }
  WEFT_ASSIGN(const std::vector<GpuDevice> gpus, gpu_devices());
  for (const GpuDevice& gpu : gpus) {
    if (!gpu.exports_dma_buf && dma_bufs.ok())
      dma_bufs = Status(Code::unavailable, fmt::format("GPU {} exports no dma-bufs", gpu.number));
    if (gpu.settles_rdma_writes) continue;
    return Status(Code::unavailable,
                  fmt::format("GPU {} cannot tell when what arrived is there", gpu.number));
  }
  std::error_code ignored;
  const bool has_peermem = std::filesystem::exists("/sys/module/nvidia_peermem", ignored);
  if (!dma_bufs.ok() && !has_peermem)
    return Status(dma_bufs.code(), fmt::format("{}; no nvidia-peermem", dma_bufs.text()));
  return (has_peermem || dma_bufs.ok() ? abi::kCudaPointers : 0) |
         (dma_bufs.ok() ? abi::kDmaBufPointers : 0);
}

Result<std::unique_ptr<Interface>> Network::open_interface(Rank rank, std::uint32_t job,
                                                           AddressResolver resolver) const {
  Config config = config_;
  config.rank = rank;
  WEFT_ASSIGN(std::vector<NetworkRail> rails, rails_of(config, job));
  BondOptions bond;
  bond.rank = rank;
  bond.channels = kChannels;
  bond.slots = static_cast<std::uint32_t>(config.rail_slots);
  bond.payload_bytes = kPayloadBytes;
  bond.silence_ms = config.path_silence_ms;
  std::vector<BondMember> members;
  for (NetworkRail& rail : rails) {
    members.push_back(std::move(rail.member));
    members.back().device = rail.name;
  }
  return open_bond(bond, nullptr, std::move(members), std::move(resolver));
}

}  // namespace weft::nccl
