// RDMA ports and network interfaces are judged alike, as candidates.
#include "tools/weft/selftest/targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace weft {
namespace {

struct Candidate {
  std::string name;        // as a target has it
  std::string also;        // what else it may be called; empty: nothing
  std::string unusable;    // why; empty: it can be used
  bool on_demand = false;  // only when it is named
};

// A transport and what it may run over.
struct Kind {
  std::string transport;
  std::vector<Candidate> candidates;
  std::string none;  // what it means that there is none
};

Kind rdma(const std::vector<RdmaPort>& ports) {
  Kind kind{"ib", {}, ports.empty() ? why_no_rdma() : ""};
  for (const RdmaPort& port : ports) {
    kind.candidates.push_back({fmt::format("{}:{}", port.device, port.port),
                               port.port == 1 ? port.device : "", port.usable ? "" : port.reason});
  }
  return kind;
}

Kind ucx(const std::vector<NetworkInterface>& interfaces) {
  Kind kind{"ucx", {}, interfaces.empty() ? why_no_interfaces() : ""};
  for (const NetworkInterface& interface : interfaces) {
    Candidate candidate{interface.name, {}, interface.usable ? "" : interface.reason};
    if (interface.kind == "loopback") candidate = {interface.name, {}, {}, true};
    kind.candidates.push_back(candidate);
  }
  return kind;
}

Result<std::string> named(const Kind& kind, std::string_view option, const std::string& name) {
  const auto found = std::ranges::find_if(kind.candidates, [&](const Candidate& each) {
    return each.name == name || (!each.also.empty() && each.also == name);
  });
  if (found == kind.candidates.end()) {
    std::vector<std::string> there;
    for (const Candidate& each : kind.candidates) there.push_back(each.name);
    return Status(Code::unavailable,
                  there.empty()
                      ? fmt::format("{} {}: {}", option, name, kind.none)
                      : fmt::format("{} {}: there is no such device for {}; there are: {}", option,
                                    name, kind.transport, fmt::join(there, ", ")));
  }
  if (!found->unusable.empty())
    return Status(Code::unavailable,
                  fmt::format("{} {}: cannot be used: {}", option, name, found->unusable));
  return found->name;
}

// Each that can be used, against itself; or why there is none.
std::vector<SelftestTarget> all_of(const Kind& kind) {
  std::vector<SelftestTarget> targets;
  std::string reasons;
  for (const Candidate& each : kind.candidates) {
    if (each.on_demand) continue;
    if (each.unusable.empty()) {
      targets.push_back({kind.transport, each.name, each.name});
    } else {
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", each.name, each.unusable);
    }
  }
  if (targets.empty())
    targets.push_back({kind.transport, {}, {}, reasons.empty() ? kind.none : reasons});
  return targets;
}

Result<std::vector<SelftestTarget>> of_kind(const Kind& kind, const SelftestArguments& asked) {
  if (asked.device.empty()) {
    std::vector<SelftestTarget> targets = all_of(kind);
    if (targets[0].left_out.empty()) return targets;
    return Status(Code::unavailable,
                  fmt::format("--transport {}: {}", kind.transport, targets[0].left_out));
  }
  SelftestTarget target{kind.transport};
  WEFT_ASSIGN(target.device, named(kind, "--device", asked.device));
  const std::string& peer = asked.peer_device.empty() ? asked.device : asked.peer_device;
  WEFT_ASSIGN(target.peer_device, named(kind, "--peer-device", peer));
  return std::vector{target};
}

std::optional<Status> senseless(const SelftestArguments& asked) {
  const auto invalid = [](std::string text) {
    return Status(Code::invalid_argument, std::move(text));
  };
  const std::string& transport = asked.transport;
  if (!transport.empty() && transport != "shm" && transport != "ib" && transport != "ucx")
    return invalid(fmt::format("--transport {}: there are shm, ib, ucx", transport));
  if (asked.device.empty() && !asked.peer_device.empty())
    return invalid(fmt::format("--peer-device {}: --device is missing", asked.peer_device));
  if (!asked.device.empty() && transport.empty())
    return invalid(fmt::format("--device {}: --transport ib or ucx is missing", asked.device));
  if (!asked.device.empty() && transport == "shm")
    return invalid(fmt::format("--device {}: --transport shm needs none", asked.device));
  return std::nullopt;
}

}  // namespace

std::string SelftestTarget::text() const {
  if (device.empty()) return transport;
  if (device == peer_device) return fmt::format("{} {}", transport, device);
  return fmt::format("{} {} - {}", transport, device, peer_device);
}

Result<std::vector<SelftestTarget>> selftest_targets(
    const SelftestArguments& asked, const std::vector<RdmaPort>& ports,
    const std::vector<NetworkInterface>& interfaces) {
  if (const auto error = senseless(asked)) return *error;
  std::vector<SelftestTarget> targets = {{"shm"}};
  if (asked.transport == "shm") return targets;
  if (asked.transport == "ib") return of_kind(rdma(ports), asked);
  if (asked.transport == "ucx") return of_kind(ucx(interfaces), asked);
  for (const Kind& kind : {rdma(ports), ucx(interfaces)}) {
    for (SelftestTarget& target : all_of(kind)) targets.push_back(std::move(target));
  }
  return targets;
}

}  // namespace weft
