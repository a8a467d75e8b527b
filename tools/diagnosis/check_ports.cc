// Interfaces and ports: may they be opened, are they up, and at which rate.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tuple>

#include "tools/diagnosis/check.h"

namespace weft::diagnosis {
namespace {

// Cards of one kind, as far as the host tells: those that should be alike.
using Kind = std::tuple<std::string, std::string, std::string>;
Kind kind_of(const NicFacts& nic) {
  return {nic.driver, nic.board, nic.link_layer};
}
std::map<Kind, std::vector<const NicFacts*>> by_kind(const HostFacts& facts) {
  std::map<Kind, std::vector<const NicFacts*>> kinds;
  for (const NicFacts& nic : facts.nics) {
    if (nic.is_card() && !nic.is_virtual_function && !nic.driver.empty())
      kinds[kind_of(nic)].push_back(&nic);
  }
  return kinds;
}

bool is_up(const NicFacts& nic) {
  return nic.rdma.empty() ? nic.state != "down" : nic.state == "ACTIVE";
}

// The settings of a job may name it.
bool is_named(const HostFacts& facts, const NicFacts& nic) {
  const std::string all = ',' + facts.interfaces + ',';
  const auto has = [&all](const std::string& name) {
    return !name.empty() && all.find(',' + name + ',') != std::string::npos;
  };
  return has(nic.name) || has(nic.netdev);
}

// "100 Gb/sec (1X EDR)": 1. 0: not told.
int lanes_in(const std::string& rate) {
  const std::size_t open = rate.find('(');
  const std::size_t end = rate.find('X', open);
  if (open == std::string::npos || end == std::string::npos) return 0;
  return std::atoi(rate.c_str() + open + 1);
}

std::string state_of(const NicFacts& nic) {
  const std::string folder = nic.rdma.empty()
                                 ? "/sys/class/net/" + nic.netdev
                                 : fmt::format("/sys/class/infiniband/{}/ports", nic.rdma);
  return fmt::format("{}: {}{}{}", folder, nic.state, nic.phys_state.empty() ? "" : ", ",
                     nic.phys_state);
}

}  // namespace

void check_device_access(const HostFacts& facts, Report& report) {
  for (const NicFacts& nic : facts.nics) {
    if (nic.rdma.empty()) continue;
    if (nic.device_file.empty()) {
      if (nic.usable) continue;
      report.add(Severity::severe, {facts.host},
                 fmt::format("the kernel offers no verbs for {}", nic.rdma),
                 "/sys/class/infiniband_verbs has nothing for it", "modprobe ib_uverbs");
      continue;
    }
    if (nic.device_error == 0) continue;
    const bool is_missing = nic.device_error == ENOENT, is_forbidden = nic.device_error == EPERM;
    report.add(Severity::severe, {facts.host},
               fmt::format("{} cannot be opened: {}", nic.name,
                           is_missing     ? "its device file is missing"
                           : is_forbidden ? "the control group's device rules forbid it"
                                          : "this user may not"),
               fmt::format("{}: {}", nic.device_file, std::strerror(nic.device_error)),
               is_missing || is_forbidden
                   ? fmt::format(
                         "start the container with --device {0}; Slurm: a line for it in gres.conf "
                         "or no ConstrainDevices; Kubernetes: the RDMA device plugin",
                         nic.device_file)
                   : fmt::format("chmod 666 {0}; for good KERNEL==\"uverbs*\", MODE=\"0666\" in "
                                 "/etc/udev/rules.d",
                                 nic.device_file));
  }
}

// A second port that nobody uses is no fault. One that is down where most of its kind are up is, and so
// is one that a setting names.
void check_port_state(const HostFacts& facts, Report& report) {
  for (const auto& [kind, nics] : by_kind(facts)) {
    const auto up = std::ranges::count_if(nics, [](const NicFacts* nic) { return is_up(*nic); });
    const bool is_of_rails =
        std::ranges::any_of(nics, [&](const NicFacts* nic) { return carries(facts, *nic); });
    for (const NicFacts* nic : nics) {
      if (is_up(*nic)) continue;
      const bool has_no_manager =
          nic->link_layer == "InfiniBand" && (nic->state == "INIT" || nic->state == "ARMED");
      const bool is_exception = is_of_rails && 2 * up > static_cast<std::ptrdiff_t>(nics.size());
      if (!has_no_manager && !is_exception && !is_named(facts, *nic)) continue;
      std::vector<RateChange> rates;
      const auto other =
          std::ranges::find_if(nics, [](const NicFacts* each) { return is_up(*each); });
      if (other != nics.end())
        rates.push_back({facts.host, nic->name, 0, carried_gbit_per_s(**other)});
      report.add(
          nic->rdma.empty() ? Severity::warning : Severity::severe, {facts.host},
          fmt::format("{} is {}{}", nic->name, nic->state.empty() ? "down" : nic->state,
                      is_exception ? fmt::format("; {} others of its kind are up", up) : ""),
          state_of(*nic),
          has_no_manager ? "start a subnet manager: systemctl start opensm, or that of the switch"
          : nic->phys_state == "Disabled"
              ? fmt::format("ip link set {} up", nic->netdev.empty() ? nic->name : nic->netdev)
              : fmt::format("look at the cable and the switch's port; ip link set {} up",
                            nic->netdev.empty() ? nic->name : nic->netdev),
          std::move(rates));
    }
  }
}

void check_port_rate(const HostFacts& facts, Report& report) {
  constexpr int kAllLanes = 4;
  for (const auto& [kind, nics] : by_kind(facts)) {
    std::vector<int> rates;
    for (const NicFacts* nic : nics)
      if (is_up(*nic) && nic->mbit_per_s > 0) rates.push_back(nic->mbit_per_s);
    if (rates.empty()) continue;
    const int usual = most_frequent(rates);
    for (const NicFacts* nic : nics) {
      if (!is_up(*nic) || nic->mbit_per_s <= 0 || !carries(facts, *nic)) continue;
      const int lanes = lanes_in(nic->rate);
      int should = std::max(usual, nic->most_mbit_per_s);
      std::string why;
      if (nic->mbit_per_s < nic->most_mbit_per_s) {
        why = fmt::format("its modes go up to {}", rate_text(nic->most_mbit_per_s / 1e3));
      } else if (nic->mbit_per_s < usual) {
        why = fmt::format("others of its kind run at {}", rate_text(usual / 1e3));
      } else if (nic->link_layer == "InfiniBand" && lanes == 1) {
        should = nic->mbit_per_s * kAllLanes;
        why = fmt::format("one lane of {} is in use", kAllLanes);
      } else {
        continue;
      }
      const double now = nic->mbit_per_s / 1e3;
      NicFacts mended = *nic;
      mended.mbit_per_s = should;
      report.add(
          2 * nic->mbit_per_s <= should ? Severity::severe : Severity::warning, {facts.host},
          fmt::format("{} runs at {}; {}", nic->name, rate_text(now), why),
          nic->rate.empty()
              ? fmt::format("/sys/class/net/{}/speed: {}", nic->netdev, nic->mbit_per_s)
              : fmt::format("/sys/class/infiniband/{}/ports: rate {}", nic->rdma, nic->rate),
          nic->link_layer == "InfiniBand"
              ? fmt::format("iblinkinfo, then another cable or switch port; mlxlink -d {} -m",
                            nic->rdma)
              : fmt::format("another cable or module; ethtool -s {} autoneg on; the rate of the "
                            "switch's port",
                            nic->netdev),
          {{facts.host, nic->name, carried_gbit_per_s(*nic), carried_gbit_per_s(mended)}});
    }
  }
}

void check_gid(const HostFacts& facts, Report& report) {
  for (const NicFacts& nic : facts.nics) {
    if (nic.rdma.empty() || nic.state != "ACTIVE" || nic.device_error != 0) continue;
    if (!nic.usable) {
      if (nic.device_file.empty()) continue;
      report.add(Severity::severe, {facts.host}, fmt::format("{} cannot be used", nic.name),
                 nic.reason,
                 fmt::format("ip addr add 10.x.y.z/24 dev {}",
                             nic.netdev.empty() ? nic.name : nic.netdev));
      continue;
    }
    if (!nic.is_roce()) continue;
    const auto is_routable = [](const GidFacts& gid) {
      return gid.usable && gid.kind == "RoCE v2";
    };
    if (std::ranges::none_of(nic.gids, is_routable)) {
      report.add(
          Severity::warning, {facts.host},
          fmt::format("{} has no address (GID) of RoCE v2: v1 passes no router and gets no ECN",
                      nic.name),
          fmt::format("{} addresses, none of kind RoCE v2", nic.gids.size()),
          fmt::format("cma_roce_mode -d {} -p 1 -m 2, and an IP address for {}", nic.rdma,
                      nic.netdev));
    }
    if (facts.gid_index < 0) continue;
    const auto chosen = std::ranges::find(nic.gids, facts.gid_index, &GidFacts::index);
    if (chosen != nic.gids.end() && chosen->usable) continue;
    report.add(
        Severity::severe, {facts.host},
        fmt::format("WEFT_IB_GID_INDEX={} names {} of {}", facts.gid_index,
                    chosen == nic.gids.end() ? "no address" : "an address that cannot be used",
                    nic.name),
        fmt::format("{} addresses there", nic.gids.size()), "unset WEFT_IB_GID_INDEX");
  }
}

// Packets of RoCE carry a power of two up to 4096, and some 82 bytes of headers and checks: Ethernet with
// preamble and gap 38, IP 20, UDP 8, InfiniBand 12 and 4.
void check_packet_size(const HostFacts& facts, Report& report) {
  constexpr int kHeaders = 82, kLargest = 4096, kInside = 44, kLeastMbit = 25'000;
  const auto share = [](int bytes) { return bytes / static_cast<double>(bytes + kHeaders); };
  for (const NicFacts& nic : facts.nics) {
    if (!nic.is_roce() || !nic.usable || !nic.is_card() || nic.mbit_per_s < kLeastMbit ||
        nic.mtu <= 0)
      continue;
    int bytes = kLargest;
    while (bytes > 256 && bytes + kInside > nic.mtu) bytes /= 2;
    if (bytes == kLargest) continue;
    const double carried = carried_gbit_per_s(nic);
    report.add(
        Severity::warning, {facts.host},
        fmt::format("RDMA packets of {} carry {} bytes instead of {}", nic.name, bytes, kLargest),
        fmt::format("/sys/class/net/{}/mtu is {}", nic.netdev, nic.mtu),
        fmt::format("ip link set {} mtu 9000, on all hosts and switches of the network",
                    nic.netdev),
        {{facts.host, nic.name, carried * share(bytes) / share(kLargest), carried}});
  }
}

}  // namespace weft::diagnosis
