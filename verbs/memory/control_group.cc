// Finding the groups by /proc/self, and reading their files.
#include "verbs/memory/control_group.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace weft {
namespace {

// The files of a version.
struct Version {
  bool is_first;
  const char *limit, *used, *active_files, *inactive_files;
};
constexpr Version kFirst{true, "memory.limit_in_bytes", "memory.usage_in_bytes",
                         "total_active_file", "total_inactive_file"};
constexpr Version kSecond{false, "memory.max", "memory.current", "active_file", "inactive_file"};

bool has_word(const std::string& list, std::string_view word) {
  std::istringstream words(list);
  for (std::string each; std::getline(words, each, ',');) {
    if (each == word) return true;
  }
  return false;
}

// The group of this process, as the hierarchy names it; empty: it is in none.
std::string own_group(const std::string& root, const Version& version) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version.is_first ? has_word(controllers, "memory") : controllers.empty())
      return line.substr(second + 1);
  }
  return {};
}

struct Mount {
  std::string part;  // the group that is mounted
  std::string place;
};

// Where the hierarchy is mounted; empty: nowhere.
Mount mount_of(const std::string& root, const Version& version) {
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string skipped, field, type, source, options;
    Mount mount;
    fields >> skipped >> skipped >> skipped >> mount.part >> mount.place;
    while (fields >> field && field != "-") {
    }
    fields >> type >> source >> options;
    const bool is_it =
        version.is_first ? type == "cgroup" && has_word(options, "memory") : type == "cgroup2";
    if (is_it) return mount;
  }
  return {};
}

// The folders of the process's group and of those above it. A container may see its own group as the
// root of the hierarchy.
std::vector<std::string> folders(const std::string& root, const Version& version) {
  std::string group = own_group(root, version);
  const Mount mount = mount_of(root, version);
  if (group.empty() || mount.place.empty()) return {};
  if (mount.part != "/") {
    const bool is_below = group.starts_with(mount.part + "/");
    group = is_below ? group.substr(mount.part.size()) : "";
  }
  std::vector<std::string> found;
  for (;;) {
    found.push_back(root + mount.place + (group == "/" ? "" : group));
    const std::size_t end = group.rfind('/');
    if (end == std::string::npos || group == "/") return found;
    group.resize(end);
  }
}

// Without a limit version 1 has a number that no machine has, and version 2 a word.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

std::uint64_t number_in(const std::string& path, std::uint64_t otherwise) {
  std::uint64_t number = 0;
  return std::ifstream(path) >> number ? number : otherwise;
}

std::uint64_t file_pages(const std::string& folder, const Version& version) {
  std::ifstream stat(folder + "/memory.stat");
  std::uint64_t sum = 0, bytes = 0;
  for (std::string name; stat >> name >> bytes;) {
    if (name == version.active_files || name == version.inactive_files) sum += bytes;
  }
  return sum;
}

}  // namespace

GroupMemory group_memory(const std::string& root) {
  GroupMemory least;
  for (const Version& version : {kFirst, kSecond}) {
    for (const std::string& folder : folders(root, version)) {
      const std::uint64_t limit = number_in(folder + "/" + version.limit, kNoLimit);
      if (limit >= kNoLimit) continue;
      const std::uint64_t used = number_in(folder + "/" + version.used, 0);
      const std::uint64_t taken = used - std::min(used, file_pages(folder, version));
      const std::uint64_t free = limit - std::min(limit, taken);
      if (least.group.empty() || free < least.free_bytes) least = {free, limit, folder};
    }
  }
  return least;
}

}  // namespace weft
