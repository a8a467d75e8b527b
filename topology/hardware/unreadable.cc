// What this machine's /sys lacks, found out before hwloc looks: hwloc ends the process where the folder
// of nodes is empty, and prints words of its own where there is no folder of processors.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "topology/hardware/sources.h"
#include "verbs/device/device.h"

namespace weft::hardware {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProcessors = "devices/system/cpu";
constexpr const char* kNodes = "devices/system/node";
constexpr const char* kCards = "bus/pci/devices";

bool is_readable(const fs::path& path) {
  return std::ifstream(path).good();
}

// Files of which hwloc needs one, by the names of old kernels and of new ones.
bool has_topology(const fs::path& processor) {
  constexpr std::array kFiles{"package_cpus", "core_cpus", "core_siblings", "thread_siblings"};
  return std::ranges::any_of(kFiles, [&processor](const char* file) {
    return is_readable(processor / "topology" / file);
  });
}

bool has_node(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.starts_with("node") && name.size() > 4 &&
        std::isdigit(static_cast<unsigned char>(name[4])) != 0 &&
        is_readable(at->path() / "cpumap"))
      return true;
  }
  return false;
}

std::string why_no_processors(const std::string& sys) {
  if (std::string why = why_unreadable(kProcessors, sys); !why.empty()) return why;
  const fs::path folder = fs::path(sys) / kProcessors;
  int first = 0;  // which is online, where processor 0 is not
  std::ifstream(folder / "online") >> first;
  if (has_topology(folder / "cpu0") || has_topology(folder / fmt::format("cpu{}", first)))
    return {};
  return fmt::format("{} has no topology of processors", folder.string());
}

// A kernel may be made without nodes, and has no folder of them.
std::string why_no_nodes(const std::string& sys) {
  const fs::path folder = fs::path(sys) / kNodes;
  std::error_code error;  // as good as absent
  if (!fs::exists(folder, error) || has_node(folder)) return {};
  return fmt::format("{} has none", folder.string());
}

// A machine may have a bus with nothing on it.
std::string why_no_cards(const std::string& sys) {
  if (std::string why = why_unreadable("bus", sys); !why.empty()) return why;
  const fs::path folder = fs::path(sys) / kCards;
  std::error_code error;
  return !fs::exists(folder, error) || fs::is_empty(folder, error) ? ""
                                                                   : why_unreadable(kCards, sys);
}

}  // namespace

bool can_hwloc_read_processors(const std::string& sys) {
  return why_no_processors(sys).empty() && why_no_nodes(sys).empty();
}

std::vector<std::string> unreadable_in(const std::string& sys) {
  std::vector<std::string> unreadable;
  const auto add = [&unreadable](std::string_view what, const std::string& why) {
    if (!why.empty()) unreadable.push_back(fmt::format("{}, because {}", what, why));
  };
  add("which network interfaces there are", why_unreadable("class/net", sys));
  add("which GPUs and other cards are on PCI", why_no_cards(sys));
  add("cores, caches and NUMA nodes beyond what the processor says of itself",
      why_no_processors(sys));
  add("NUMA nodes", why_no_nodes(sys));
  return unreadable;
}

}  // namespace weft::hardware
