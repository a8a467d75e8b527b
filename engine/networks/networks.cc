// networks: the rails of all transports. If no transport has an interface that WEFT_INTERFACES
// names, the error says so.
#include "engine/networks/networks.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "verbs/device/device.h"

namespace weft {
namespace {

std::vector<WantedName> wanted_names(const Config& config) {
  std::vector<WantedName> names;
  std::istringstream list(config.interfaces);
  for (std::string name; std::getline(list, name, ',');) names.push_back({name});
  return names;
}

Status not_there(const std::string& name) {
  std::vector<std::string> there;
  for (const RdmaPort& port : list_rdma_ports()) there.push_back(port.device);
  for (const NetworkInterface& device : discover_interfaces()) there.push_back(device.name);
  return Status(Code::unavailable,
                fmt::format("WEFT_INTERFACES names {}, which this machine does not have, or no "
                            "transport that may be used (WEFT_TRANSPORTS); it has {}",
                            name, fmt::join(there, ", ")));
}

}  // namespace

Result<std::vector<NetworkRail>> network_rails(const Config& config,
                                               const InterfaceOptions& options) {
  const bool asked_for = !config.transports.automatic;
  std::vector<WantedName> names = wanted_names(config);
  std::vector<NetworkRail> rails;
  std::string missing;
  const auto add = [&](Result<Rails> found) -> Status {
    WEFT_RETURN_IF_ERROR(found.status());
    if (found->members.empty()) {
      missing += fmt::format("{}{}", missing.empty() ? "" : "; ", found->missing);
      if (asked_for && names.empty()) return Status(Code::unavailable, found->missing);
    }
    std::ranges::move(found->members, std::back_inserter(rails));
    return {};
  };
  if (config.transports.ib) WEFT_RETURN_IF_ERROR(add(ib_rails(config, options, names)));
  if (config.transports.ucx) WEFT_RETURN_IF_ERROR(add(ucx_rails(config, options, names)));
  const auto unknown = std::ranges::find(names, false, &WantedName::found);
  if (unknown != names.end()) return not_there(unknown->name);
  if (rails.empty()) return Status(Code::unavailable, missing);
  return rails;
}

}  // namespace weft
