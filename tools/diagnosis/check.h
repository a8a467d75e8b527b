// The checks, and what several of them use. Internal to the module.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/diagnosis/diagnosis.h"

namespace weft::diagnosis {

// What one check found on one host.
class Report {
 public:
  Report(std::string_view check, std::vector<Finding>& to) : check_(check), to_(to) {}
  void add(Severity severity, std::vector<std::string> hosts, std::string what, std::string seen,
           std::string mend, std::vector<RateChange> rates = {});

 private:
  std::string_view check_;
  std::vector<Finding>& to_;
};

// check_process.cc
void check_memlock(const HostFacts& facts, Report& report);
void check_limits(const HostFacts& facts, Report& report);
void check_shm(const HostFacts& facts, Report& report);
void check_huge_pages(const HostFacts& facts, Report& report);
void check_cpu_quota(const HostFacts& facts, Report& report);
// check_ports.cc
void check_device_access(const HostFacts& facts, Report& report);
void check_port_state(const HostFacts& facts, Report& report);
void check_port_rate(const HostFacts& facts, Report& report);
void check_gid(const HostFacts& facts, Report& report);
void check_packet_size(const HostFacts& facts, Report& report);
// check_pci.cc
void check_pci_link(const HostFacts& facts, Report& report);
void check_relaxed_ordering(const HostFacts& facts, Report& report);
// check_networks.cc
void check_flow_control(const HostFacts& facts, Report& report);
void check_traffic_class(const HostFacts& facts, Report& report);
void check_shared_network(const HostFacts& facts, Report& report);
// check_gpus.cc
void check_gpu_memory(const HostFacts& facts, Report& report);
void check_peer_traffic(const HostFacts& facts, Report& report);
void check_binding(const HostFacts& facts, Report& report);
// check_counters.cc
void check_errors(const HostFacts& facts, Report& report);

using Hosts = std::span<const HostFacts>;
// compare.cc
void compare_versions(Hosts hosts, Report& report);
void compare_clocks(Hosts hosts, Report& report);
void compare_rails(Hosts hosts, Report& report);
void compare_settings(Hosts hosts, Report& report);
// compare_networks.cc
void compare_mtu(Hosts hosts, Report& report);
void compare_gids(Hosts hosts, Report& report);
void compare_flow_control(Hosts hosts, Report& report);
void compare_lone_networks(Hosts hosts, Report& report);
void compare_addresses(Hosts hosts, Report& report);

// Whether ranks send over it: see carriers().
[[nodiscard]] bool carries(const HostFacts& facts, const NicFacts& nic);
// "8 MiB"
[[nodiscard]] std::string size_text(std::int64_t bytes);
// "100 Gbit/s"
[[nodiscard]] std::string rate_text(double gbit_per_s);
// Those that others of a list have most often; of equally many the first.
template <class Value>
[[nodiscard]] Value most_frequent(const std::vector<Value>& values) {
  Value most = values.front();
  std::ptrdiff_t times = 0;
  for (const Value& value : values) {
    const auto count = std::ranges::count(values, value);
    if (count > times) most = value;
    times = std::max(times, count);
  }
  return most;
}

}  // namespace weft::diagnosis
