// This machine as the kernel lists it in /sys, for hosts without hwloc.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "topology/hardware/pci_class.h"
#include "topology/hardware/sources.h"
#include "verbs/device/device.h"

namespace weft::hardware {
namespace {

namespace fs = std::filesystem;

constexpr int kMostNumbers = 1 << 13;  // as Linux counts processors

std::string first_line(const fs::path& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

// "-1" or "8.0 GT/s PCIe": the number that a file begins with.
template <typename Number>
Number number_in(const fs::path& path, Number otherwise) {
  const std::string line = first_line(path);
  Number number = otherwise;
  const bool is_number =
      std::from_chars(line.data(), line.data() + line.size(), number).ec == std::errc{};
  return is_number ? number : otherwise;
}

std::vector<int> common(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

// Those on which this thread may run.
std::vector<int> own_processors() {
  std::array<cpu_set_t, kMostNumbers / CPU_SETSIZE> sets{};
  std::vector<int> processors;
  if (::sched_getaffinity(0, sizeof sets, sets.data()) != 0) return processors;
  for (int number = 0; number < kMostNumbers; ++number) {
    if (CPU_ISSET_S(static_cast<std::size_t>(number), sizeof sets, sets.data()))
      processors.push_back(number);
  }
  return processors;
}

// Those of the machine, or of the container. A rank that is bound to a few of them still sees the
// others, because the machine is the same for all its ranks.
std::vector<int> processors_of(const fs::path& sys) {
  const std::vector<int> online = list_in(sys / "devices/system/cpu/online");
  if (online.empty()) return own_processors();
  const std::vector<int> allowed = common(online, list_in(sys / "fs/cgroup/cpuset.cpus.effective"));
  return allowed.empty() ? online : allowed;
}

struct Processor {
  int number = 0;
  int package = -1;    // in the order of their first processors; -1: not told
  std::string core{};  // the list of the core's processors; empty: not told
};

std::vector<Processor> described(const fs::path& sys, const std::vector<int>& numbers) {
  std::vector<Processor> processors;
  std::vector<int> packages;  // as the kernel numbers them
  for (const int number : numbers) {
    const fs::path folder = sys / fmt::format("devices/system/cpu/cpu{}/topology", number);
    Processor one{number};
    one.core = first_line(folder / "core_cpus_list");
    if (one.core.empty()) one.core = first_line(folder / "thread_siblings_list");
    const int id = number_in(folder / "physical_package_id", -1);
    if (id >= 0) {
      const auto known = std::ranges::find(packages, id);
      one.package = static_cast<int>(known - packages.begin());
      if (known == packages.end()) packages.push_back(id);
    }
    processors.push_back(std::move(one));
  }
  return processors;
}

int cores_of(const std::vector<Processor>& processors) {
  std::set<std::string_view> cores;
  for (const Processor& one : processors) cores.insert(one.core);
  cores.erase("");
  return static_cast<int>(cores.size());
}

std::uint64_t memory_of(const fs::path& node) {
  std::ifstream file(node / "meminfo");  // "Node 0 MemTotal: 8056484 kB"
  std::string word;
  std::uint64_t kbyte = 0;
  while (file >> word) {
    if (word == "MemTotal:" && file >> kbyte) return kbyte << 10;
  }
  return 0;
}

NumaNode node_of(int index, const std::vector<Processor>& processors) {
  NumaNode node{.index = index, .cores = cores_of(processors)};
  for (const Processor& one : processors) node.processors.push_back(one.number);
  const auto is_elsewhere = [&processors](const Processor& one) {
    return one.package != processors.front().package;
  };
  if (!processors.empty() && std::ranges::none_of(processors, is_elsewhere))
    node.package = processors.front().package;
  return node;
}

std::vector<NumaNode> nodes_of(const fs::path& sys, const std::vector<Processor>& processors) {
  std::vector<NumaNode> nodes;
  for (const int index : list_in(sys / "devices/system/node/online")) {
    const fs::path folder = sys / fmt::format("devices/system/node/node{}", index);
    const std::vector<int> numbers = list_in(folder / "cpulist");
    std::vector<Processor> own;
    std::ranges::copy_if(processors, std::back_inserter(own), [&numbers](const Processor& one) {
      return std::ranges::binary_search(numbers, one.number);
    });
    nodes.push_back(node_of(index, own));
    nodes.back().bytes = memory_of(folder);
  }
  // A kernel that knows no nodes, or does not tell.
  if (nodes.empty()) nodes.push_back(node_of(0, processors));
  return nodes;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");  // "model name	: AMD EPYC"
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

// Gigabytes per second of a device's link, one way; 0: not told.
double link_rate(const fs::path& device) {
  constexpr double kSecondSpeed = 5.0;  // up to which 10 bits carry 8; after it 130 carry 128
  const double speed = number_in(device / "current_link_speed", 0.0);
  const int lanes = number_in(device / "current_link_width", 0);
  return speed * lanes / 8 * (speed <= kSecondSpeed ? 8.0 / 10 : 128.0 / 130);
}

std::vector<Gpu> gpus_of(const fs::path& sys) {
  std::vector<std::string> addresses;
  std::error_code error;  // as good as absent
  fs::directory_iterator at(sys / "bus/pci/devices", error);
  for (; !error && at != fs::directory_iterator(); at.increment(error))
    addresses.push_back(at->path().filename());
  std::ranges::sort(addresses);
  std::vector<Gpu> gpus;
  for (const std::string& address : addresses) {
    const fs::path device = sys / "bus/pci/devices" / address;
    const PciIdentity identity{class_in(first_line(device / "class")).value_or(0),
                               id_in(first_line(device / "vendor")),
                               id_in(first_line(device / "device")), link_rate(device)};
    if (kind_of(identity) != PciKind::accelerator) continue;
    Gpu gpu;
    gpu.index = static_cast<int>(gpus.size());
    gpu.place.address = address;
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace

std::vector<int> list_in(const std::filesystem::path& path) {
  return number_list(first_line(path));
}

Machine sys_machine(const std::string& sys) {
  Machine machine;
  const std::vector<Processor> processors = described(sys, processors_of(sys));
  machine.cpu = cpu_model();
  for (const Processor& one : processors)
    machine.packages = std::max(machine.packages, one.package + 1);
  machine.cores = cores_of(processors);
  machine.threads = static_cast<int>(processors.size());
  machine.nodes = nodes_of(sys, processors);
  for (const NumaNode& node : machine.nodes) machine.memory_bytes += node.bytes;
  machine.gpus = gpus_of(sys);
  return machine;
}

// The kernel's name of a device is the way to it: "…/pci0000:3a/0000:3a:00.0/0000:3b:00.0".
PciPlace sys_place(const Machine& machine, const std::string& address, const std::string& sys) {
  PciPlace place;
  place.address = address;
  std::error_code error;
  const fs::path device = fs::canonical(fs::path(sys) / "bus/pci/devices" / address, error);
  if (error) return place;
  fs::path above;
  for (const fs::path& part : device) {
    above /= part;
    const std::string name = part.string();
    if (name.starts_with("pci") && pci_bus(name.substr(3))) {
      place.host_bridge = *pci_bus(name.substr(3));
      place.bridges.clear();
    } else if (above != device && pci_address(name)) {
      place.bridges.push_back({name, link_rate(above)});
    }
  }
  place.gbyte_per_s = link_rate(device);
  place.numa_node = number_in(device / "numa_node", -1);
  const auto node = std::ranges::find(machine.nodes, place.numa_node, &NumaNode::index);
  if (node != machine.nodes.end()) place.package = node->package;
  return place;
}

}  // namespace weft::hardware
