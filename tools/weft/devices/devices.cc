// weft devices: every network interface and RDMA port, whether it can be used and why; which
// address of them suits a peer.
#include "tools/weft/devices/devices.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "engine/config/config.h"
#include "tools/weft/commands.h"
#include "tools/weft/common/rdma_ports.h"

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
