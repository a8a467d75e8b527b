// Rails over UCX, one per network interface.
#include <fmt/core.h>

#include <algorithm>

#include "engine/networks/networks.h"
#include "verbs/device/device.h"
#include "verbs/ucx/ucx.h"

namespace weft {
namespace {

NetworkRail rail_over(const NetworkInterface& device, const Config& config,
                      const InterfaceOptions& options, UcxOptions ucx) {
  InterfaceOptions own = options;
  own.slots = static_cast<std::uint32_t>(config.rail_slots);
  ucx.device = device.name;
  return {{"ucx", device.network,
           [=, rank = config.rank](AddressResolver resolver) {
             return open_ucx(rank, own, ucx, std::move(resolver));
           }},
          device.name,
          device.numa_node,
          device.ip};
}

Result<std::vector<NetworkInterface>> named(std::span<WantedName> names,
                                            const std::vector<NetworkInterface>& devices) {
  std::vector<NetworkInterface> chosen;
  for (WantedName& wanted : names) {
    const auto found = std::ranges::find(devices, wanted.name, &NetworkInterface::name);
    if (found == devices.end()) continue;
    wanted.found = true;
    if (found->ip.empty()) {
      return Status(Code::unavailable,
                    fmt::format("WEFT_INTERFACES names {}, which {}", wanted.name, found->reason));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace

// Without names, chooses all usable interfaces. If there are none, chooses the loopback interface,
// so that ranks on one host that play different machines (WEFT_HOST) reach each other.
Result<Rails> ucx_rails(const Config& config, const InterfaceOptions& options,
                        std::span<WantedName> names) {
  const std::vector<NetworkInterface> devices = discover_interfaces();
  std::vector<NetworkInterface> chosen;
  if (!names.empty()) {
    WEFT_ASSIGN(chosen, named(names, devices));
  } else {
    std::ranges::copy_if(devices, std::back_inserter(chosen),
                         [](const NetworkInterface& device) { return device.usable; });
    if (chosen.empty()) {
      std::ranges::copy_if(devices, std::back_inserter(chosen), [](const NetworkInterface& device) {
        return device.kind == "loopback" && !device.ip.empty();
      });
    }
  }
  Rails rails{{}, why_no_interfaces()};
  WEFT_ASSIGN(const UcxOptions ucx, ucx_options(config));
  for (const NetworkInterface& device : chosen)
    rails.members.push_back(rail_over(device, config, options, ucx));
  return rails;
}

}  // namespace weft
