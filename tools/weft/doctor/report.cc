// Findings as text and as JSON.
#include "tools/weft/doctor/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// "4 hosts", "node0, node1, node2"
std::string hosts_text(const std::vector<std::string>& hosts, std::size_t all) {
  constexpr std::size_t kMost = 6;
  if (hosts.size() == all && all > 1) return fmt::format("all {} hosts", all);
  if (hosts.size() <= kMost) return fmt::format("{}", fmt::join(hosts, ", "));
  const std::vector<std::string> first(hosts.begin(), hosts.begin() + kMost);
  return fmt::format("{} and {} more", fmt::join(first, ", "), hosts.size() - kMost);
}

std::string time_text(double us) {
  constexpr double kMs = 1e3;
  return us < kMs ? fmt::format("{:.3g} us", us) : fmt::format("{:.3g} ms", us / kMs);
}

std::string cost_text(const Cost& cost, bool is_one_host) {
  return fmt::format(
      "an allreduce of {} over {} takes {} instead of {} ({:.2f} times), as weft predict counts",
      fmt::format("{} MiB", cost.bytes >> 20),
      is_one_host ? "two such hosts" : fmt::format("{} hosts", cost.hosts), time_text(cost.us),
      time_text(cost.mended_us), cost.times());
}

std::size_t count(const DoctorReport& report, Severity severity) {
  return static_cast<std::size_t>(
      std::ranges::count(report.findings, severity, &Finding::severity));
}

// "1 warning", "2 warnings"
std::string counted(std::size_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

// By what and why, the hosts.
using Unchecked = std::map<std::pair<std::string, std::string>, std::vector<std::string>>;
Unchecked unchecked_of(const DoctorReport& report) {
  Unchecked unchecked;
  for (const HostFacts& facts : report.found.hosts)
    for (const NotChecked& each : facts.not_checked)
      unchecked[{each.what, each.why}].push_back(facts.host);
  return unchecked;
}

Json json_of(const Finding& finding, const std::optional<Cost>& cost) {
  Json object{{"severity", name(finding.severity)},
              {"check", finding.check},
              {"hosts", finding.hosts},
              {"what", finding.what},
              {"seen", finding.seen},
              {"mend", finding.mend}};
  object["cost"] = Json();
  if (!cost) return object;
  object["cost"] = {{"operation", "allreduce"}, {"bytes", cost->bytes},
                    {"hosts", cost->hosts},     {"ranks", cost->ranks},
                    {"us", cost->us},           {"mended_us", cost->mended_us},
                    {"times", cost->times()}};
  return object;
}

}  // namespace

DoctorReport report_on(Collected found) {
  DoctorReport report;
  report.findings = diagnose(found.hosts);
  for (const Finding& finding : report.findings)
    report.costs.push_back(cost_of(finding, found.hosts));
  report.found = std::move(found);
  return report;
}

int exit_status(const DoctorReport& report) {
  if (count(report, Severity::severe) > 0) return 2;
  return count(report, Severity::warning) > 0 || !report.found.missing.empty() ? 1 : 0;
}

std::string doctor_text(const DoctorReport& report) {
  const std::size_t hosts = report.found.hosts.size();
  std::string text = fmt::format(
      "{}: {} severe, {}, {}\n",
      hosts == 1 ? report.found.hosts.front().host : fmt::format("{} hosts", hosts),
      count(report, Severity::severe), counted(count(report, Severity::warning), "warning"),
      counted(count(report, Severity::hint), "hint"));
  for (const Missing& missing : report.found.missing)
    text += fmt::format("not looked at: {}: {}\n", missing.who, missing.why);
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    const Finding& finding = report.findings[i];
    text += fmt::format("\n{:<8} {}{}\n", name(finding.severity),
                        hosts > 1 ? hosts_text(finding.hosts, hosts) + ": " : "", finding.what);
    text += fmt::format("  seen   {}\n", finding.seen);
    if (report.costs[i])
      text += fmt::format("  costs  {}\n", cost_text(*report.costs[i], hosts == 1));
    text += fmt::format("  mend   {}\n", finding.mend);
  }
  const Unchecked unchecked = unchecked_of(report);
  if (!unchecked.empty()) text += '\n';
  for (const auto& [what, who] : unchecked) {
    text += fmt::format("not checked{}: {}: {}\n", hosts > 1 ? " on " + hosts_text(who, hosts) : "",
                        what.first, what.second);
  }
  return text;
}

std::string doctor_json(const DoctorReport& report) {
  Json object{{"hosts", Json::array()},
              {"findings", Json::array()},
              {"missing", Json::array()},
              {"not_checked", Json::array()},
              {"status", exit_status(report)}};
  for (const HostFacts& facts : report.found.hosts) object["hosts"].push_back(facts.host);
  for (std::size_t i = 0; i < report.findings.size(); ++i)
    object["findings"].push_back(json_of(report.findings[i], report.costs[i]));
  for (const Missing& missing : report.found.missing)
    object["missing"].push_back({{"who", missing.who}, {"why", missing.why}});
  for (const auto& [what, who] : unchecked_of(report))
    object["not_checked"].push_back({{"what", what.first}, {"why", what.second}, {"hosts", who}});
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace weft
