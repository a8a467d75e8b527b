// The tables of checks, and findings of several hosts as one.
#include "tools/diagnosis/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>

#include "tools/diagnosis/check.h"

namespace weft {
namespace {

using namespace diagnosis;

struct HostCheck {
  std::string_view name;
  void (*run)(const HostFacts&, Report&);
};
constexpr std::array kHostChecks{
    HostCheck{"memlock", check_memlock},
    HostCheck{"limits", check_limits},
    HostCheck{"shm", check_shm},
    HostCheck{"huge-pages", check_huge_pages},
    HostCheck{"cpu-quota", check_cpu_quota},
    HostCheck{"device-access", check_device_access},
    HostCheck{"port-state", check_port_state},
    HostCheck{"port-rate", check_port_rate},
    HostCheck{"gid", check_gid},
    HostCheck{"packet-size", check_packet_size},
    HostCheck{"pci-link", check_pci_link},
    HostCheck{"relaxed-ordering", check_relaxed_ordering},
    HostCheck{"flow-control", check_flow_control},
    HostCheck{"traffic-class", check_traffic_class},
    HostCheck{"shared-network", check_shared_network},
    HostCheck{"gpu-memory", check_gpu_memory},
    HostCheck{"peer-traffic", check_peer_traffic},
    HostCheck{"binding", check_binding},
    HostCheck{"errors", check_errors},
};

struct Comparison {
  std::string_view name;
  void (*run)(Hosts, Report&);
};
constexpr std::array kComparisons{
    Comparison{"versions", compare_versions},
    Comparison{"clocks", compare_clocks},
    Comparison{"rails", compare_rails},
    Comparison{"settings", compare_settings},
    Comparison{"mtu", compare_mtu},
    Comparison{"gid", compare_gids},
    Comparison{"flow-control", compare_flow_control},
    Comparison{"lone-network", compare_lone_networks},
    Comparison{"duplicate-address", compare_addresses},
};

bool is_same(const Finding& a, const Finding& b) {
  return a.severity == b.severity && a.check == b.check && a.what == b.what && a.seen == b.seen &&
         a.mend == b.mend;
}

}  // namespace

void Report::add(Severity severity, std::vector<std::string> hosts, std::string what,
                 std::string seen, std::string mend, std::vector<RateChange> rates) {
  to_.push_back({severity, std::string(check_), std::move(hosts), std::move(what), std::move(seen),
                 std::move(mend), std::move(rates)});
}

bool diagnosis::carries(const HostFacts& facts, const NicFacts& nic) {
  return std::ranges::count(carriers(facts), &nic) != 0;
}

std::string diagnosis::size_text(std::int64_t bytes) {
  constexpr std::int64_t kKib = 1 << 10, kMib = 1 << 20, kGib = 1 << 30;
  if (bytes >= kGib && bytes % kGib == 0) return fmt::format("{} GiB", bytes / kGib);
  if (bytes >= 10 * kGib) return fmt::format("{:.0f} GiB", static_cast<double>(bytes) / kGib);
  if (bytes >= kMib) return fmt::format("{} MiB", bytes / kMib);
  return fmt::format("{} KiB", bytes / kKib);
}

std::string diagnosis::rate_text(double gbit_per_s) {
  return fmt::format("{:.3g} Gbit/s", gbit_per_s);
}

std::string_view name(Severity severity) {
  constexpr std::array<std::string_view, 3> kNames{"hint", "warning", "severe"};
  return kNames.at(static_cast<std::size_t>(severity));
}

std::vector<std::string_view> check_names() {
  std::vector<std::string_view> names;
  for (const HostCheck& check : kHostChecks) names.push_back(check.name);
  for (const Comparison& check : kComparisons)
    if (std::ranges::count(names, check.name) == 0) names.push_back(check.name);
  return names;
}

std::vector<Finding> look_at(const HostFacts& facts) {
  std::vector<Finding> found;
  for (const HostCheck& check : kHostChecks) {
    Report report(check.name, found);
    check.run(facts, report);
  }
  return found;
}

std::vector<Finding> compare(std::span<const HostFacts> hosts) {
  std::vector<Finding> found;
  if (hosts.size() < 2) return found;
  for (const Comparison& check : kComparisons) {
    Report report(check.name, found);
    check.run(hosts, report);
  }
  return found;
}

std::vector<Finding> diagnose(std::span<const HostFacts> hosts) {
  std::vector<Finding> all;
  for (const HostFacts& facts : hosts) {
    for (Finding& finding : look_at(facts)) {
      const auto known =
          std::ranges::find_if(all, [&](const Finding& other) { return is_same(finding, other); });
      if (known == all.end()) {
        all.push_back(std::move(finding));
      } else {
        known->hosts.push_back(facts.host);
        std::ranges::move(finding.rates, std::back_inserter(known->rates));
      }
    }
  }
  std::ranges::move(compare(hosts), std::back_inserter(all));
  std::ranges::stable_sort(all, std::greater(), &Finding::severity);
  return all;
}

double carried_gbit_per_s(const NicFacts& nic) {
  if (nic.mbit_per_s <= 0) return 0;
  double gbit = nic.mbit_per_s / 1e3;
  if (nic.is_virtual_function) return gbit;
  for (const PciLink& link : nic.pci.links)
    if (link.gbit_per_s() > 0) gbit = std::min(gbit, link.gbit_per_s());
  return gbit;
}

std::vector<const NicFacts*> carriers(const HostFacts& facts) {
  const auto that_are = [&facts](bool rdma) {
    std::vector<const NicFacts*> found;
    for (const NicFacts& nic : facts.nics) {
      if (nic.usable && nic.rdma.empty() != rdma && (rdma || nic.bond.empty()))
        found.push_back(&nic);
    }
    return found;
  };
  std::vector<const NicFacts*> ports = that_are(true);
  return ports.empty() ? that_are(false) : ports;
}

}  // namespace weft
