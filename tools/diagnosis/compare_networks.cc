// Interfaces of several hosts that are on one network, or should be.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "tools/diagnosis/check.h"

namespace weft::diagnosis {
namespace {

struct Member {
  const HostFacts* host;
  const NicFacts* nic;
};

// Interfaces that lead out, by their network.
std::map<std::string, std::vector<Member>> networks_of(Hosts hosts) {
  std::map<std::string, std::vector<Member>> networks;
  for (const HostFacts& facts : hosts) {
    for (const NicFacts& nic : facts.nics)
      if (nic.usable && !nic.network.empty() && nic.bond.empty())
        networks[nic.network].push_back({&facts, &nic});
  }
  return networks;
}

std::size_t hosts_on(const std::vector<Member>& members) {
  std::set<const HostFacts*> hosts;
  for (const Member& member : members) hosts.insert(member.host);
  return hosts.size();
}

// Those whose number differs from what most have.
template <class Number>
void report_others(const std::vector<Member>& members, Number number,
                   const std::function<void(const Member&, int usual)>& report) {
  std::vector<int> numbers;
  for (const Member& member : members)
    if (number(*member.nic) >= 0) numbers.push_back(number(*member.nic));
  if (numbers.empty()) return;
  const int usual = most_frequent(numbers);
  for (const Member& member : members)
    if (number(*member.nic) >= 0 && number(*member.nic) != usual) report(member, usual);
}

// A network of two addresses belongs to a host and its switch: hosts reach each other through routers.
bool is_point_to_point(const std::string& network) {
  constexpr int kPairV4 = 30, kPairV6 = 126;
  const std::size_t slash = network.find('/');
  const int bits = slash == std::string::npos ? 0 : std::atoi(network.c_str() + slash + 1);
  return bits >= (network.find('.') != std::string::npos ? kPairV4 : kPairV6);
}

}  // namespace

void compare_mtu(Hosts hosts, Report& report) {
  for (const auto& [network, members] : networks_of(hosts)) {
    if (hosts_on(members) < 2) continue;
    const auto mtu = [](const NicFacts& nic) { return nic.mtu > 0 ? nic.mtu : -1; };
    report_others(members, mtu, [&](const Member& member, int usual) {
      report.add(Severity::warning, {member.host->host},
                 fmt::format("{} has MTU {}, others on {} have {}", member.nic->name,
                             member.nic->mtu, member.nic->network, usual),
                 fmt::format("/sys/class/net/{}/mtu", member.nic->netdev),
                 fmt::format("ip link set {} mtu {}", member.nic->netdev, usual));
    });
  }
}

void compare_gids(Hosts hosts, Report& report) {
  for (const auto& [network, members] : networks_of(hosts)) {
    if (hosts_on(members) < 2) continue;
    const auto kinds = [](const NicFacts& nic) {
      int mask = 0;
      for (const GidFacts& gid : nic.gids)
        if (gid.usable) mask |= gid.kind == "RoCE v2" ? 2 : gid.kind == "RoCE v1" ? 1 : 4;
      return nic.rdma.empty() ? -1 : mask;
    };
    report_others(members, kinds, [&](const Member& member, int usual) {
      if ((kinds(*member.nic) & usual) != 0) return;
      report.add(Severity::severe, {member.host->host},
                 fmt::format("{} has no address (GID) of a kind that other hosts on {} have",
                             member.nic->name, member.nic->network),
                 fmt::format("{} addresses", member.nic->gids.size()),
                 fmt::format("cma_roce_mode -d {} -p 1 -m 2 on all hosts", member.nic->rdma));
    });
  }
}

void compare_flow_control(Hosts hosts, Report& report) {
  for (const auto& [network, members] : networks_of(hosts)) {
    if (hosts_on(members) < 2) continue;
    for (const bool is_pfc : {true, false}) {
      const auto mask = [is_pfc](const NicFacts& nic) {
        return nic.is_roce() ? (is_pfc ? nic.pfc : nic.ecn) : -1;
      };
      report_others(members, mask, [&](const Member& member, int usual) {
        report.add(Severity::warning, {member.host->host},
                   fmt::format("{} of {} differs from that of other hosts on {}",
                               is_pfc ? "PFC" : "ECN", member.nic->name, member.nic->network),
                   fmt::format("priorities as a mask: {:#04x}, on most hosts {:#04x}",
                               mask(*member.nic), usual),
                   fmt::format("mlnx_qos -i {} as on the other hosts", member.nic->netdev));
      });
    }
  }
}

// Where every interface has a network of its own, hosts are joined by routers, and nothing is wrong.
void compare_lone_networks(Hosts hosts, Report& report) {
  const auto networks = networks_of(hosts);
  std::set<std::string> shared;
  for (const auto& [network, members] : networks)
    if (hosts_on(members) > 1) shared.insert(network);
  const auto is_shared = [&shared](const NicFacts& nic) { return shared.contains(nic.network); };
  for (const auto& [network, members] : networks) {
    if (shared.empty() || shared.contains(network) || is_point_to_point(network)) continue;
    for (const Member& member : members) {
      if (member.nic->is_routed) continue;
      std::vector<std::string> others;  // networks of the interface of this name
      bool is_shared_elsewhere = false;
      for (const HostFacts& facts : hosts) {
        for (const NicFacts& nic : facts.nics) {
          if (nic.name != member.nic->name || &nic == member.nic) continue;
          if (!nic.usable || nic.network.empty() || !nic.bond.empty()) continue;
          others.push_back(nic.network);
          is_shared_elsewhere |= is_shared(nic);
        }
      }
      const bool is_misplaced =
          (is_shared_elsewhere || !others.empty()) && carries(*member.host, *member.nic);
      report.add(is_misplaced ? Severity::warning : Severity::hint, {member.host->host},
                 fmt::format("{} is on {}, where no other host is", member.nic->name, network),
                 others.empty() ? fmt::format("its address is {}", member.nic->ip)
                                : fmt::format("its address is {}; on other hosts it is on {}",
                                              member.nic->ip, most_frequent(others)),
                 is_misplaced
                     ? fmt::format("ip addr add ADDRESS dev {}, in the network of the others",
                                   member.nic->netdev)
                     : fmt::format("WEFT_INTERFACES without {}; Weft leaves it out by itself",
                                   member.nic->name));
    }
  }
}

void compare_addresses(Hosts hosts, Report& report) {
  std::map<std::string, std::vector<Member>> addresses;
  for (const auto& [network, members] : networks_of(hosts)) {
    for (const Member& member : members)
      if (!member.nic->ip.empty()) addresses[member.nic->ip].push_back(member);
  }
  for (const auto& [ip, members] : addresses) {
    if (hosts_on(members) < 2) continue;
    std::vector<std::string> names;
    for (const Member& member : members) names.push_back(member.host->host);
    report.add(
        Severity::severe, names, fmt::format("several hosts have the address {}", ip),
        fmt::format("{} of each", members.front().nic->name),
        fmt::format("ip addr del {} dev {} on all but one", ip, members.front().nic->netdev));
  }
}

}  // namespace weft::diagnosis
