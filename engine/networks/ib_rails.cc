// Rails over RDMA verbs, one per port.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "engine/networks/networks.h"
#include "verbs/cuda/cuda.h"
#include "verbs/device/device.h"
#include "verbs/ib/ib.h"
#include "verbs/progress/progress.h"

namespace weft {
namespace {

// The most threads that register a region. More would take cores from the other ranks of the
// machine.
constexpr int kMostRegistrationThreads = 4;

DeviceMemory memory_of_gpus() {
  const auto exporter = [](const void* address,
                           std::size_t bytes) -> Result<std::optional<DmaBuf>> {
    std::optional<ForDevices> found = memory_for_devices(address, bytes);
    if (!found) return std::optional<DmaBuf>();
    return std::optional(
        DmaBuf{std::move(found->dma_buf), found->offset, found->pointer, found->refusal});
  };
  const auto receive_buffer = [](std::size_t bytes) -> Result<DeviceMemory::ReceiveBuffer> {
    WEFT_ASSIGN(std::shared_ptr<ReceiveBuffer> made, ReceiveBuffer::make(bytes));
    std::byte* const address = made->address();
    return DeviceMemory::ReceiveBuffer{std::move(made), address};
  };
  return {exporter, copy_for_devices, is_for_devices, receive_buffer};
}

NetworkRail rail_over(const RdmaPort& port, const Config& config, const InterfaceOptions& options) {
  InterfaceOptions own = options;
  own.slots = static_cast<std::uint32_t>(config.rail_slots);
  IbOptions ib = ib_options(config);
  if (config.gpu_rdma) ib.device_memory = memory_of_gpus();
  ib.device = port.device;
  ib.port = port.port;
  ib.registration_threads = std::min(usable_cores(), kMostRegistrationThreads);
  return {{"ib", network_of(port),
           [=, rank = config.rank](AddressResolver resolver) {
             return open_ib(rank, own, ib, std::move(resolver));
           }},
          port.port == 1 ? port.device : fmt::format("{}:{}", port.device, port.port),
          port.numa_node,
          {},
          [device = port.device] { return check_dma_bufs(device); }};
}

// Whether `name` names the port. "mlx5_0" is the first port of the device, "mlx5_0:2" the second.
bool is_named(const RdmaPort& port, const std::string& name) {
  if (name == port.device) return port.port == 1;
  return name == fmt::format("{}:{}", port.device, port.port);
}

}  // namespace

Result<Rails> ib_rails(const Config& config, const InterfaceOptions& options,
                       std::span<WantedName> names) {
  std::vector<RdmaPort> ports = discover_ib_ports();
  Rails rails;
  if (ports.empty()) rails.missing = why_no_rdma();
  if (const Status library = ib_library(); !library.ok() && !ports.empty()) {
    const auto is_asked_for = [&ports](const WantedName& wanted) {
      return std::ranges::any_of(
          ports, [&wanted](const RdmaPort& port) { return is_named(port, wanted.name); });
    };
    if (std::ranges::any_of(names, is_asked_for)) return library;
    if (names.empty()) log(LogLevel::warning, library.text());
    return Rails{{}, std::string(library.text())};
  }
  // A cable that is out now may be in later, as when a context is split while cables come and go.
  const bool is_any_usable = std::ranges::any_of(ports, &RdmaPort::usable);
  for (const RdmaPort& port : ports) {
    const bool fits = port.usable || (port.lacks_carrier && is_any_usable);
    if (names.empty() && fits) rails.members.push_back(rail_over(port, config, options));
    if (!fits) {
      rails.missing += fmt::format("{}{} port {}: {}", rails.missing.empty() ? "" : "; ",
                                   port.device, port.port, port.reason);
    }
  }
  for (WantedName& wanted : names) {
    const auto port = std::ranges::find_if(
        ports, [&](const RdmaPort& each) { return is_named(each, wanted.name); });
    if (port == ports.end()) continue;
    wanted.found = true;
    if (!port->usable && !port->lacks_carrier) {
      return Status(Code::unavailable,
                    fmt::format("WEFT_INTERFACES names {}, which cannot be used: {}", wanted.name,
                                port->reason));
    }
    rails.members.push_back(rail_over(*port, config, options));
  }
  return rails;
}

}  // namespace weft
