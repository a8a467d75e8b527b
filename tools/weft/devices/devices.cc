// weft devices: every network interface and RDMA port, whether it can be used and why; which
// address of them suits a peer.
#include "tools/weft/devices/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "engine/config/config.h"
#include "tools/weft/commands.h"
#include "tools/weft/common/interfaces.h"
#include "tools/weft/common/rdma_ports.h"
#include "topology/hardware/hardware.h"

namespace weft {
namespace {

struct Arguments {
  std::optional<std::string> peer;
  bool json = false;
};

// An address alone does not tell its kind: the peer is taken to have it in each of ours.
std::vector<RankedGid> rank(const std::vector<RdmaPort>& ports, const GidAddress& peer) {
  std::vector<RankedGid> owners;
  std::vector<RdmaGid> local;
  for (const RdmaPort& port : ports) {
    for (const RdmaGid& gid : port.gids) {
      owners.push_back({.port = &port, .gid = &gid});
      local.push_back(gid);
    }
  }
  std::vector<GidAddress> remote(3, peer);
  remote[0].kind = GidKind::infiniband;
  remote[1].kind = GidKind::roce_v1;
  remote[2].kind = GidKind::roce_v2;

  std::vector<RankedGid> ranking;
  for (GidPair& pair : rank_gid_pairs(local, remote)) {
    RankedGid& entry = owners[static_cast<std::size_t>(pair.local)];
    if (remote[static_cast<std::size_t>(pair.remote)].kind != entry.gid->kind) continue;
    entry.score = pair.score;
    entry.reason = std::move(pair.reason);
    ranking.push_back(entry);
  }
  return ranking;
}

// Interfaces that WEFT_INTERFACES does not name are not used.
void keep_named(const Config& config, DeviceReport& report) {
  const std::vector<std::string> names = named_interfaces(config);
  if (names.empty()) return;
  std::set<std::string> missing(names.begin(), names.end());
  const auto judge = [&](auto& device, const std::string& name) {
    missing.erase(name);
    if (!device.usable || std::ranges::count(names, name) != 0) return;
    device.usable = false;
    device.reason = fmt::format("WEFT_INTERFACES={} does not name it", config.interfaces);
  };
  for (NetworkInterface& each : report.interfaces) judge(each, each.name);
  for (RdmaPort& each : report.ports) judge(each, interface_name(each));
  for (const std::string& name : missing) {
    report.remarks.push_back(
        fmt::format("WEFT_INTERFACES names {}, which this machine does not have", name));
  }
}

// WEFT_HARDWARE may say that interfaces are absent.
void leave_out(const std::string& file, const Machine& found, const Machine& corrected,
               DeviceReport& report) {
  const auto judge = [&](auto& device, const std::string& name) {
    const auto has = [&name](const Machine& machine) {
      return std::ranges::any_of(machine.nics, [&name](const Nic& nic) {
        return nic.name() == name || nic.netdev == name;
      });
    };
    if (!device.usable || !has(found) || has(corrected)) return;
    device.usable = false;
    device.reason = fmt::format("WEFT_HARDWARE={} says that it is absent", file);
  };
  for (NetworkInterface& each : report.interfaces) judge(each, each.name);
  for (RdmaPort& each : report.ports) judge(each, interface_name(each));
}

Status look_at_machine(const Config& config, DeviceReport& report) {
  WEFT_ASSIGN(Machine machine, discover_machine());
  if (!config.hardware.empty()) {
    const Machine found = machine;
    WEFT_RETURN_IF_ERROR(correct_machine(machine, config.hardware));
    report.remarks.push_back(fmt::format(
        "WEFT_HARDWARE={} corrects this machine (weft topo shows it)", config.hardware));
    leave_out(config.hardware, found, machine, report);
  }
  for (const Remark& remark : remarks_on(machine)) {
    for (const std::string& phrase : remark.phrases)
      report.remarks.push_back(fmt::format("{}: {}", remark.about, phrase));
  }
  return {};
}

int run(const Arguments& arguments) {
  DeviceReport report;
  report.peer = arguments.peer.value_or("");
  Result<GidAddress> peer = GidAddress{};
  if (arguments.peer) peer = parse_gid(*arguments.peer, GidKind::roce_v2);
  if (!peer.ok()) {
    fmt::print(stderr, "weft devices: --peer {}\n", peer.status().text());
    return kUsageError;
  }
  const Result<Config> config = Config::from_environment(UnknownNames::refuse);
  if (!config.ok()) {
    fmt::print(stderr, "weft devices: {}\n", config.status().text());
    return kUsageError;
  }
  report.memory_hooks = config->memory_hooks;
  report.libraries = optional_libraries();
  report.interfaces = discover_interfaces();
  report.ports = rdma_ports();
  if (report.ports.empty()) report.no_rdma = why_no_rdma();
  const Result<std::vector<GpuDevice>> gpus = gpu_devices();
  if (gpus.ok()) report.gpus = *gpus;
  report.cuda = cuda_version().ok() ? *cuda_version() : "";
  if (report.gpus.empty())
    report.no_gpu = gpus.ok() ? "the driver has none" : std::string(gpus.status().text());
  if (const Status status = look_at_machine(*config, report); !status.ok()) {
    fmt::print(stderr, "weft devices: {}\n", status.text());
    return status.code() == Code::invalid_argument ? kUsageError : 1;
  }
  keep_named(*config, report);
  if (arguments.peer) report.ranking = rank(report.ports, *peer);
  if (arguments.json) {
    fmt::print("{}\n", devices_json(report));
  } else {
    print_tables(report);
  }
  return 0;
}

}  // namespace

void add_devices(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "devices", "Show network interfaces, RDMA ports and their addresses: usable or not, and why");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("--peer", arguments->peer,
                      "How well each local address (GID) suits this one: 10.0.0.2, fe80::1 or a "
                      "GID, each with /PREFIX or without");
  command->add_flag("--json", arguments->json, "One JSON object instead of tables");
  command->footer(R"(
Examples:
  weft devices
  weft devices --peer 10.0.0.2/24
  weft devices --json)");
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
