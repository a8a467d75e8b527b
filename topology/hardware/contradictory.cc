// Whether /sys contradicts itself about which processors belong together, as firmware and hypervisors make
// it do. hwloc expects sets of which one has all of the other or nothing; of others it prints a banner to
// standard error.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <vector>

#include "topology/hardware/sources.h"

namespace weft::hardware {
namespace {

namespace fs = std::filesystem;

constexpr int kMostCaches = 10;  // of a processor, as hwloc counts them

using Processors = std::vector<int>;
using Groups = std::map<Processors, std::string>;  // with a name of the first that has them

bool has_all_or_nothing(const Processors& a, const Processors& b) {
  Processors both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both.empty() || both.size() == std::min(a.size(), b.size());
}

// By the names of new kernels and of old ones.
void add_topology(const fs::path& folder, int number, Groups& groups) {
  struct Kind {
    const char* name;
    std::array<const char*, 2> files;
  };
  constexpr std::array kKinds{Kind{"package", {"package_cpus_list", "core_siblings_list"}},
                              Kind{"die", {"die_cpus_list", ""}},
                              Kind{"core", {"core_cpus_list", "thread_siblings_list"}}};
  for (const Kind& kind : kKinds) {
    for (const char* file : kind.files) {
      const Processors processors = list_in(folder / "topology" / file);
      if (processors.empty()) continue;
      groups.emplace(processors, fmt::format("the {} of processor {}", kind.name, number));
      break;
    }
  }
  for (int cache = 0; cache < kMostCaches; ++cache) {
    const Processors processors =
        list_in(folder / "cache" / fmt::format("index{}", cache) / "shared_cpu_list");
    if (processors.empty()) break;
    groups.emplace(processors, fmt::format("a cache of processor {}", number));
  }
}

Groups groups_in(const fs::path& devices) {
  Groups groups;
  for (const int node : list_in(devices / "node/online")) {
    const Processors processors =
        list_in(devices / "node" / fmt::format("node{}", node) / "cpulist");
    if (!processors.empty()) groups.emplace(processors, fmt::format("NUMA node {}", node));
  }
  for (const int number : list_in(devices / "cpu/online"))
    add_topology(devices / "cpu" / fmt::format("cpu{}", number), number, groups);
  return groups;
}

}  // namespace

std::string contradiction_in(const std::string& sys) {
  const Groups groups = groups_in(fs::path(sys) / "devices/system");
  for (auto a = groups.begin(); a != groups.end(); ++a) {
    for (auto b = std::next(a); b != groups.end() && b->first.front() <= a->first.back(); ++b) {
      if (has_all_or_nothing(a->first, b->first)) continue;
      return fmt::format(
          "{} contradicts itself: {} and {} have some processors in common, but not all "
          "of either",
          sys, a->second, b->second);
    }
  }
  return {};
}

}  // namespace weft::hardware
