// Flow control of RoCE, and several interfaces of one host on one network.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "tools/diagnosis/check.h"

namespace weft::diagnosis {
namespace {

// DSCP is the upper six bits of a traffic class; cards and switches map each eight values of it to a
// priority unless they were told otherwise.
constexpr int kDscpShift = 2, kPriorityShift = 3;
int priority_of(int traffic_class) {
  constexpr int kMost = 7;
  return traffic_class >> kDscpShift >> kPriorityShift & kMost;
}
// The usual DSCP of a priority for RoCE (26 for priority 3), with the bit that says that the sender knows ECN.
int class_of(int priority) {
  constexpr int kWithinPriority = 2, kKnowsEcn = 2;
  return (priority << kPriorityShift | kWithinPriority) << kDscpShift | kKnowsEcn;
}

std::string priorities(int mask) {
  std::vector<int> set;
  for (int priority = 0; priority < 8; ++priority)
    if ((mask >> priority & 1) != 0) set.push_back(priority);
  return list_text(set);
}

bool is_relevant(const NicFacts& nic) {
  return nic.is_roce() && nic.usable && nic.is_card();
}

}  // namespace

void check_flow_control(const HostFacts& facts, Report& report) {
  for (const NicFacts& nic : facts.nics) {
    if (!is_relevant(nic) || nic.pfc != 0 || nic.pause == 1 || nic.ecn > 0) continue;
    report.add(
        nic.ecn == 0 ? Severity::warning : Severity::hint, {facts.host},
        fmt::format("{} has neither PFC nor pause frames{}: RoCE loses packets where several hosts "
                    "send to one",
                    nic.name, nic.ecn == 0 ? " nor ECN" : ", and whether ECN is on is not told"),
        fmt::format("{}: PFC of no priority, pause off{}", nic.netdev,
                    nic.ecn == 0 ? ", ecn/roce_np and roce_rp off" : ""),
        fmt::format("mlnx_qos -i {0} --trust dscp --pfc 0,0,0,1,0,0,0,0; echo 1 > "
                    "/sys/class/net/{0}/ecn/roce_np/enable/3 (and roce_rp); the same on the "
                    "switches",
                    nic.netdev));
  }
}

void check_traffic_class(const HostFacts& facts, Report& report) {
  const int own = priority_of(facts.traffic_class);
  for (const NicFacts& nic : facts.nics) {
    if (!is_relevant(nic)) continue;
    const bool has_pfc = nic.pfc > 0;
    const int mask = has_pfc ? nic.pfc : nic.ecn;
    if (mask <= 0 || (mask >> own & 1) != 0) continue;
    int first = 0;
    while ((mask >> first & 1) == 0) ++first;
    report.add(Severity::warning, {facts.host},
               fmt::format("{} has {} for priority {}, and Weft's packets have priority {}",
                           nic.name, has_pfc ? "PFC" : "ECN", priorities(mask), own),
               fmt::format("{}; WEFT_IB_TRAFFIC_CLASS={}",
                           has_pfc ? "DCB's settings of " + nic.netdev
                                   : fmt::format("/sys/class/net/{}/ecn", nic.netdev),
                           facts.traffic_class),
               fmt::format("export WEFT_IB_TRAFFIC_CLASS={}", class_of(first)));
  }
}

// Linux answers an ARP request for any of its addresses over any interface, and routes all packets to a network
// over one of its interfaces there. A strict reverse-path filter drops what then comes in over another one.
void check_shared_network(const HostFacts& facts, Report& report) {
  std::map<std::string, std::vector<const NicFacts*>> networks;
  for (const NicFacts& nic : facts.nics) {
    const bool is_v4 = nic.network.find('.') != std::string::npos;
    if (nic.usable && is_v4 && !nic.netdev.empty() && nic.bond.empty() && nic.kind != "veth")
      networks[nic.network].push_back(&nic);
  }
  for (const auto& [network, nics] : networks) {
    const bool has_carrier =
        std::ranges::any_of(nics, [&facts](const NicFacts* nic) { return carries(facts, *nic); });
    if (nics.size() < 2 || !has_carrier) continue;
    std::vector<std::string> names;
    std::vector<RateChange> rates;
    bool is_strict = false, has_flux = false;
    for (const NicFacts* nic : nics) {
      names.push_back(nic->netdev);
      const double gbit = carried_gbit_per_s(*nic);
      rates.push_back({facts.host, nic->name, rates.empty() ? gbit : 0, gbit});
      is_strict |= nic->rp_filter == 1;
      has_flux |= nic->arp_ignore == 0 || nic->arp_announce == 0;
    }
    const std::string where =
        fmt::format("{} are on one network, {}", fmt::join(names, " and "), network);
    if (is_strict) {
      report.add(
          Severity::severe, {facts.host},
          where + ", and a strict reverse-path filter drops what comes in over all but one",
          "/proc/sys/net/ipv4/conf: rp_filter is 1",
          "sysctl -w net.ipv4.conf.all.rp_filter=2, and the same of each interface; better a "
          "network for each rail",
          rates);
    }
    if (has_flux) {
      report.add(
          Severity::warning, {facts.host},
          where + ": each answers for the others' addresses (ARP flux), so rails mix",
          "/proc/sys/net/ipv4/conf: arp_ignore or arp_announce is 0",
          "sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2; better a "
          "network for each rail",
          is_strict ? std::vector<RateChange>() : rates);
    }
  }
}

}  // namespace weft::diagnosis
