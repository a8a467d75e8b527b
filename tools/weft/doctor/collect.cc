// Files, and what all ways have in common.
#include "tools/weft/doctor/collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace weft {
namespace {

constexpr std::size_t kMostBytes = std::size_t{17} << 20;  // more than facts_from_json takes

Result<std::string> content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status(Code::unavailable, std::strerror(errno));
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad())
    return Status(Code::unavailable, "cannot be read: " + std::string(std::strerror(errno)));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

HostFacts facts_here(const Config& config, const FactSources& from) {
  HostFacts facts = read_facts(from);
  if (!config.host.empty()) facts.host = config.host;
  facts.interfaces = config.interfaces;
  facts.traffic_class = config.ib_traffic_class;
  facts.gid_index = config.ib_gid_index;
  return facts;
}

Collected collect_files(const std::vector<std::string>& paths) {
  Collected found;
  for (const std::string& path : paths) {
    const Result<std::string> text = content(path);
    Result<HostFacts> facts = text.ok() ? facts_from_json(*text) : Result<HostFacts>(text.status());
    if (facts.ok()) {
      found.hosts.push_back(*std::move(facts));
    } else {
      found.missing.push_back({path, std::string(facts.status().text())});
    }
  }
  return found;
}

void settle(Collected& found, const std::vector<HostFacts>& earlier) {
  std::vector<HostFacts> hosts;
  for (HostFacts& facts : found.hosts) {
    const auto known = std::ranges::find(hosts, facts.host, &HostFacts::host);
    if (known == hosts.end()) {
      hosts.push_back(std::move(facts));
    } else if (known->boot == facts.boot) {
      found.missing.push_back({facts.host,
                               "its facts came twice; the first are used (--since compares two "
                               "looks at one host)"});
    } else {
      for (int number = 2; std::ranges::count(hosts, facts.host, &HostFacts::host) != 0; ++number)
        facts.host = fmt::format("{}#{}", known->host, number);
      hosts.push_back(std::move(facts));
    }
  }
  found.hosts = std::move(hosts);
  for (HostFacts& facts : found.hosts) {
    const auto before = std::ranges::find(earlier, facts.host, &HostFacts::host);
    if (before == earlier.end()) continue;
    if (before->boot != facts.boot) {
      facts.not_checked.push_back(
          {"what changed since the earlier look", "the host was booted in between"});
      continue;
    }
    facts.before = before->now;
  }
  for (const HostFacts& before : earlier) {
    if (std::ranges::count(found.hosts, before.host, &HostFacts::host) == 0)
      found.missing.push_back({before.host, "has an earlier look only"});
  }
}

}  // namespace weft
