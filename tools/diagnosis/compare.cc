// What should be equal on all hosts: versions, clocks, rails.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tools/diagnosis/check.h"

namespace weft::diagnosis {
namespace {

// By what has a version: the version of each host that tells one.
using Versions = std::map<std::string, std::map<std::string, std::vector<std::string>>>;

void note(Versions& versions, const std::string& what, const std::string& version,
          const std::string& host) {
  if (version.empty()) return;
  auto& hosts = versions[what][version];
  if (std::ranges::count(hosts, host) == 0) hosts.push_back(host);
}

Versions versions_of(Hosts hosts) {
  Versions versions;
  for (const HostFacts& facts : hosts) {
    note(versions, "weft", facts.weft, facts.host);
    note(versions, "the kernel", facts.kernel, facts.host);
    for (const auto& [what, version] : facts.versions)
      note(versions, "the " + what, version, facts.host);
    for (const NicFacts& nic : facts.nics) {
      if (nic.is_card() && !nic.board.empty())
        note(versions, "firmware of " + nic.board, nic.firmware, facts.host);
    }
  }
  return versions;
}

std::string cure_of(const std::string& what) {
  if (what == "weft") return "install one version of Weft on all hosts";
  if (what.starts_with("firmware"))
    return "mlxfwmanager --online -u, or the vendor's tool, then mlxfwreset";
  return "install one version on all hosts, then boot";
}

// "a, b and 6 others"
std::string some(const std::vector<std::string>& hosts) {
  constexpr std::size_t kMost = 4;
  if (hosts.size() <= kMost) return fmt::format("{}", fmt::join(hosts, ", "));
  const std::vector<std::string> first(hosts.begin(), hosts.begin() + kMost - 1);
  return fmt::format("{} and {} others", fmt::join(first, ", "), hosts.size() - first.size());
}

}  // namespace

void compare_versions(Hosts hosts, Report& report) {
  for (const auto& [what, by_version] : versions_of(hosts)) {
    if (by_version.size() < 2) continue;
    const auto usual = std::ranges::max_element(
        by_version, {}, [](const auto& entry) { return entry.second.size(); });
    std::vector<std::string> others, seen;
    for (const auto& [version, those] : by_version) {
      seen.push_back(fmt::format("{} on {}", version, some(those)));
      if (version != usual->first) others.insert(others.end(), those.begin(), those.end());
    }
    report.add(Severity::warning, others, fmt::format("{} differs between hosts", what),
               fmt::format("{}", fmt::join(seen, "; ")), cure_of(what));
  }
}

void compare_settings(Hosts hosts, Report& report) {
  struct Setting {
    std::string_view name;
    std::string (*of)(const HostFacts&);
  };
  const std::array kSettings{
      Setting{"WEFT_IB_TRAFFIC_CLASS",
              [](const HostFacts& facts) { return std::to_string(facts.traffic_class); }},
      Setting{"WEFT_IB_GID_INDEX",
              [](const HostFacts& facts) {
                return facts.gid_index < 0 ? "auto" : std::to_string(facts.gid_index);
              }},
  };
  for (const Setting& setting : kSettings) {
    std::vector<std::string> values;
    for (const HostFacts& facts : hosts) values.push_back(setting.of(facts));
    const std::string usual = most_frequent(values);
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (values[i] == usual) continue;
      report.add(Severity::warning, {hosts[i].host},
                 fmt::format("{} differs from that of other hosts", setting.name),
                 fmt::format("{}, on most hosts {}", values[i], usual),
                 fmt::format("export {}={}", setting.name, usual));
    }
  }
}

// The collector bounds each host's offset by the times between which the host read its clock.
void compare_clocks(Hosts hosts, Report& report) {
  constexpr double kLeast_s = 0.05;
  std::vector<std::string> unsynchronized;
  bool is_any_synchronized = false;
  for (const HostFacts& facts : hosts) {
    if (facts.is_clock_synchronized == 0) unsynchronized.push_back(facts.host);
    is_any_synchronized |= facts.is_clock_synchronized == 1;
    if (!facts.clock_least_s || !facts.clock_most_s) continue;
    const bool is_ahead = *facts.clock_least_s > kLeast_s,
               is_behind = *facts.clock_most_s < -kLeast_s;
    if (!is_ahead && !is_behind) continue;
    report.add(Severity::warning, {facts.host},
               fmt::format("the clock is at least {:.3g} s {} that of the host that asks",
                           is_ahead ? *facts.clock_least_s : -*facts.clock_most_s,
                           is_ahead ? "ahead of" : "behind"),
               fmt::format("its time came between {:.3f} and {:.3f} s ahead", *facts.clock_least_s,
                           *facts.clock_most_s),
               "systemctl restart chronyd, chronyc makestep");
  }
  if (unsynchronized.empty() || !is_any_synchronized) return;
  report.add(Severity::warning, unsynchronized,
             "the clock is not synchronized, and other hosts' are", "adjtimex: the kernel says so",
             "systemctl enable --now chronyd");
}

namespace {

using Carriers = std::vector<const NicFacts*>;

// What stands in parentheses: a command that verbs/device knows for the reason.
std::string command_in(const std::string& reason) {
  const std::size_t open = reason.find('('), close = reason.find(')', open);
  return close == std::string::npos ? std::string() : reason.substr(open + 1, close - open - 1);
}

// What most hosts have, and this one has not.
void report_missing(const HostFacts& host, const Carriers& own, const Carriers& usual,
                    Report& report) {
  std::vector<RateChange> rates;
  std::vector<std::string> seen;
  std::string mend;
  for (const NicFacts* nic : usual) {
    const auto is_same = [nic](const NicFacts& each) { return each.name == nic->name; };
    if (std::ranges::any_of(own, [&](const NicFacts* each) { return is_same(*each); })) continue;
    const auto here = std::ranges::find_if(host.nics, is_same);
    const bool is_here = here != host.nics.end();
    seen.push_back(fmt::format("{} {}", nic->name, is_here ? here->reason : "is not there"));
    if (is_here && mend.empty()) mend = command_in(here->reason);
    rates.push_back({host.host, nic->name, 0, carried_gbit_per_s(*nic)});
  }
  const bool is_told = seen.size() == usual.size() - own.size();
  report.add(Severity::severe, {host.host},
             fmt::format("{} of the {} rails that most hosts have", own.size(), usual.size()),
             is_told ? fmt::format("{}", fmt::join(seen, "; "))
                     : fmt::format("{} interfaces can be used", own.size()),
             is_told && !mend.empty() ? mend : "weft devices on that host says why",
             std::move(rates));
}

void report_slow(const HostFacts& host, const NicFacts& nic, double should_mbit, Report& report) {
  report.add(2 * nic.mbit_per_s <= should_mbit ? Severity::severe : Severity::warning, {host.host},
             fmt::format("{} runs at {}, on other hosts at {}", nic.name,
                         rate_text(nic.mbit_per_s / 1e3), rate_text(should_mbit / 1e3)),
             nic.rate.empty()
                 ? fmt::format("/sys/class/net/{}/speed", nic.netdev)
                 : fmt::format("/sys/class/infiniband/{}/ports: rate {}", nic.rdma, nic.rate),
             "another cable or module; the rate of the switch's port",
             {{host.host, nic.name, carried_gbit_per_s(nic), should_mbit / 1e3}});
}

}  // namespace

// The rails are what most hosts have. Of an interface whose modes go beyond its rate, another check tells.
void compare_rails(Hosts hosts, Report& report) {
  std::vector<Carriers> all;
  std::vector<std::size_t> counts;
  std::map<std::string, std::vector<double>> rates;  // by interface
  for (const HostFacts& facts : hosts) {
    all.push_back(carriers(facts));
    counts.push_back(all.back().size());
    for (const NicFacts* nic : all.back())
      if (nic->mbit_per_s > 0) rates[nic->name].push_back(nic->mbit_per_s);
  }
  const std::size_t usual = most_frequent(counts);
  const auto model = static_cast<std::size_t>(std::ranges::find(counts, usual) - counts.begin());
  std::map<std::string, double> should;
  for (const auto& [name, those] : rates) should[name] = most_frequent(those);
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (all[i].size() < usual) report_missing(hosts[i], all[i], all[model], report);
    for (const NicFacts* nic : all[i]) {
      const bool is_slow = nic->mbit_per_s > 0 && nic->mbit_per_s < should[nic->name];
      if (is_slow && nic->most_mbit_per_s <= nic->mbit_per_s)
        report_slow(hosts[i], *nic, should[nic->name], report);
    }
  }
}

}  // namespace weft::diagnosis
