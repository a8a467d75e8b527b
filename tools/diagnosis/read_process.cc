// What bounds a process of this host, and the memory that it can use.
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "tools/diagnosis/read.h"
#include "verbs/device/device.h"

namespace weft::diagnosis {
namespace {

constexpr std::int64_t kKib = 1024;

// /proc/self/limits: "Max locked memory         8388608              8388608              bytes".
enum class Which : std::size_t { soft, hard };
std::int64_t limit(const fs::path& self, const std::string& name, Which which) {
  const std::vector<std::string> told = words(after(self / "limits", name));
  const auto at = static_cast<std::size_t>(which);
  return at < told.size() ? number_in(told[at]).value_or(-1) : -1;  // "unlimited" is no number
}

void read_limits(const Root& root, HostFacts& facts) {
  const fs::path self = root.self();
  if (!is_there(self / "limits")) {
    facts.not_checked.push_back(
        {"limits of processes", fmt::format("{} is not there", (self / "limits").string())});
    facts.can_lock = true;
    return;
  }
  facts.locked_bytes = limit(self, "Max locked memory", Which::soft);
  facts.files = limit(self, "Max open files", Which::hard);
  facts.processes = limit(self, "Max processes", Which::soft);
  facts.address_bytes = limit(self, "Max address space", Which::soft);
  constexpr int kLockMemory = 14;  // CAP_IPC_LOCK
  const std::string mask = after(self / "status", "CapEff:");
  std::uint64_t capabilities = 0;
  std::from_chars(mask.data(), mask.data() + mask.size(), capabilities, 16);
  facts.can_lock = (capabilities >> kLockMemory & 1U) != 0;
}

// "always [madvise] never": the word in brackets.
std::string chosen(const std::string& line) {
  const std::size_t open = line.find('['), close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return line.substr(open + 1, close - open - 1);
}

void read_memory(const Root& root, HostFacts& facts) {
  const fs::path meminfo = root.path / "proc/meminfo";
  const auto of = [&meminfo](const std::string& key) {
    return number_in(after(meminfo, key)).value_or(0);
  };
  facts.memory_bytes = of("MemTotal:") * kKib;
  facts.huge_page_bytes = of("Hugepagesize:") * kKib;
  facts.huge_pages = of("HugePages_Total:");
  facts.huge_pages_free = of("HugePages_Free:");
  facts.huge_shared = chosen(text(root.sys() / "kernel/mm/transparent_hugepage/shmem_enabled"));
}

// Of a mount's options "rw,nosuid,size=65536k"; absent: half of the memory, as tmpfs has it.
std::int64_t tmpfs_bytes(const std::string& options, std::int64_t memory) {
  const std::size_t at = options.find("size=");
  if (at == std::string::npos) return memory / 2;
  const std::string value = options.substr(at + 5, options.find(',', at) - at - 5);
  const std::int64_t number = number_in(value).value_or(0);
  switch (value.empty() ? ' ' : value.back()) {
    case 'k':
      return number * kKib;
    case 'm':
      return number * kKib * kKib;
    case 'g':
      return number * kKib * kKib * kKib;
    case '%':
      return memory / 100 * number;
    default:
      return number;
  }
}

void read_shm(const Root& root, HostFacts& facts) {
  for (const std::string& line : lines(root.self() / "mounts")) {
    const std::vector<std::string> mount = words(line);  // device, place, kind, options, …
    if (mount.size() < 4 || mount[1] != "/dev/shm") continue;
    facts.shm_bytes = tmpfs_bytes(mount[3], facts.memory_bytes);
    struct statvfs told {};
    if (!root.is_live || ::statvfs("/dev/shm", &told) != 0 || told.f_blocks == 0) continue;
    facts.shm_bytes = static_cast<std::int64_t>(told.f_blocks * told.f_frsize);
    facts.shm_free = static_cast<std::int64_t>(told.f_bavail * told.f_frsize);
  }
  if (facts.shm_bytes < 0)
    facts.not_checked.push_back({"the size of /dev/shm", "nothing is mounted there"});
}

// "200000 100000" of cpu.max: two cores' worth; "max 100000": no bound.
double quota_in(const std::string& line) {
  const std::vector<std::string> told = words(line);
  if (told.size() != 2) return -1;
  const auto quota = number_in(told[0]), period = number_in(told[1]);
  return quota && period && *period > 0 ? static_cast<double>(*quota) / static_cast<double>(*period)
                                        : -1;
}

struct Quota {
  double cores = -1;
  std::int64_t throttled = -1;
};

// Version 2 of control groups has one tree, version 1 one for each controller.
Quota quota_of(const fs::path& folder) {
  Quota quota{quota_in(text(folder / "cpu.max"))};
  if (quota.cores < 0) {
    quota.cores =
        quota_in(text(folder / "cpu.cfs_quota_us") + ' ' + text(folder / "cpu.cfs_period_us"));
  }
  if (quota.cores > 0)
    quota.throttled = number_in(after(folder / "cpu.stat", "nr_throttled")).value_or(-1);
  return quota;
}

// The narrowest on the way from the process's group to the root. A container sees its own group as
// the root.
void read_quota(const Root& root, HostFacts& facts) {
  const fs::path mounted = root.sys() / "fs/cgroup";
  for (const std::string& line : lines(root.self() / "cgroup")) {  // "4:cpu,cpuacct:/x", "0::/x"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    const bool is_unified = controllers == ",,";
    if (!is_unified && controllers.find(",cpu,") == std::string::npos) continue;
    const fs::path tree = is_unified ? mounted : mounted / "cpu";
    fs::path folder = tree / fs::path(line.substr(second + 1)).relative_path();
    for (int depth = 0; depth < 64; ++depth) {
      const Quota found = quota_of(folder);
      if (found.cores > 0 && (facts.cpu_quota < 0 || found.cores < facts.cpu_quota)) {
        facts.cpu_quota = found.cores;
        facts.throttled = found.throttled;
      }
      if (folder == tree || !folder.has_relative_path()) break;
      folder = folder.parent_path();
    }
  }
}

void read_nodes(const Root& root, HostFacts& facts) {
  const fs::path nodes = root.sys() / "devices/system/node";
  for (const int index : number_list(text(nodes / "online"))) {
    facts.nodes.push_back({index, number_list(text(nodes / fmt::format("node{}/cpulist", index)))});
  }
}

}  // namespace

void read_process(const Root& root, HostFacts& facts) {
  if (root.is_live) facts.cpus = own_cpus();
  read_limits(root, facts);
  read_memory(root, facts);
  read_shm(root, facts);
  read_quota(root, facts);
  read_nodes(root, facts);
}

}  // namespace weft::diagnosis
