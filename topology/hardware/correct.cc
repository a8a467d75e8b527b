// What a user knows better than the source: a TOML file, documented in docs/hardware.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "topology/hardware/left_out.h"
#include "topology/hardware/sources.h"
#include "topology/toml/toml.h"

namespace weft {
namespace {

constexpr std::int64_t kMostIndex = 65'535;
constexpr int kMostPort = 255;
constexpr std::int64_t kMostMbit = 100'000'000;  // 100 Tbit/s
constexpr double kMostGbyte = 1e6;

// `key` where it is given, else what was there.
Status take(TomlTable& table, std::string_view key, std::string& into) {
  WEFT_ASSIGN(std::optional<std::string> given, table.text(key));
  if (given) into = std::move(*given);
  return {};
}

Status take(TomlTable& table, std::string_view key, int& into, std::int64_t least,
            std::int64_t most) {
  WEFT_ASSIGN(const std::optional<std::int64_t> given, table.integer(key, least, most));
  if (given) into = static_cast<int>(*given);
  return {};
}

Status take(TomlTable& table, std::string_view key, double& into) {
  WEFT_ASSIGN(const std::optional<double> given, table.number(key, 0, kMostGbyte));
  if (given) into = *given;
  return {};
}

// The same for an address, as `read` takes it.
Status take_address(TomlTable& table, std::string_view key, std::string& into,
                    std::optional<std::string> (*read)(std::string_view), std::string_view kind) {
  WEFT_ASSIGN(const std::optional<std::string> given, table.text(key));
  if (!given) return {};
  std::optional<std::string> address = read(*given);
  if (!address) return table.wrong(key, fmt::format("'{}' is no {}", *given, kind));
  into = *std::move(address);
  return {};
}

constexpr std::string_view kAddress = "PCI address (\"0000:3b:00.0\")";
constexpr std::string_view kBus = "domain and bus (\"0000:3a\")";

// From the host bridge down, each of them once.
Status take_bridges(TomlTable& table, PciPlace& place) {
  WEFT_ASSIGN(const std::vector<std::string> bridges, table.texts("bridges"));
  WEFT_ASSIGN(const std::vector<double> rates, table.numbers("bridges_gbyte_per_s", 0, kMostGbyte));
  if (rates.size() > bridges.size())
    return table.wrong("bridges_gbyte_per_s", "more of them than bridges");
  if (!table.has("bridges")) return {};  // an empty list says that there is none
  place.bridges.clear();
  for (std::size_t i = 0; i < bridges.size(); ++i) {
    std::optional<std::string> address = hardware::pci_address(bridges[i]);
    if (!address) return table.wrong("bridges", fmt::format("'{}' is no {}", bridges[i], kAddress));
    if (*address == place.address)
      return table.wrong("bridges", *address + " is the device itself");
    if (std::ranges::count(place.bridges, *address, &PciBridge::address) != 0)
      return table.wrong("bridges", *address + " is there twice");
    place.bridges.push_back({*std::move(address), i < rates.size() ? rates[i] : 0.0});
  }
  return {};
}

// Of a machine that tells of none, any may be.
Status check_node(const TomlTable& table, const PciPlace& place, const Machine& machine) {
  const auto& nodes = machine.nodes;
  if (!nodes.empty() && std::ranges::count(nodes, place.numa_node, &NumaNode::index) == 0) {
    std::vector<int> known;
    for (const NumaNode& node : nodes) known.push_back(node.index);
    return table.wrong("numa_node", fmt::format("there is no NUMA node {}, but {}", place.numa_node,
                                                fmt::join(known, ", ")));
  }
  return {};
}

PciPlace without_node(PciPlace place) {
  place.numa_node = -1;
  place.package = -1;
  place.is_node_assumed = false;
  return place;
}

Status take_place(TomlTable& table, const Machine& machine, PciPlace& place) {
  const bool is_new = table.has("numa_node");
  // Of a machine with one node, settle() assumes it again.
  if (is_new || (place.is_node_assumed && machine.nodes.size() == 1))
    place = without_node(std::move(place));
  WEFT_RETURN_IF_ERROR(take_address(table, "pci", place.address, hardware::pci_address, kAddress));
  WEFT_RETURN_IF_ERROR(take(table, "pci_gbyte_per_s", place.gbyte_per_s));
  WEFT_RETURN_IF_ERROR(
      take_address(table, "host_bridge", place.host_bridge, hardware::pci_bus, kBus));
  WEFT_RETURN_IF_ERROR(take(table, "numa_node", place.numa_node, 0, kMostIndex));
  if (is_new) WEFT_RETURN_IF_ERROR(check_node(table, place, machine));
  WEFT_RETURN_IF_ERROR(take(table, "package", place.package, 0, kMostIndex));
  if (table.has("package") && machine.packages > 0 && place.package >= machine.packages)
    return table.wrong("package",
                       fmt::format("there are {} packages, from 0 on", machine.packages));
  return take_bridges(table, place);
}

// The name of one that the machine did not have is an RDMA device's where the table tells the
// network interface apart from it, or says so.
Nic new_nic(TomlTable& table, const std::string& name) {
  Nic nic;
  const std::string device = name.substr(0, name.find(':'));
  const auto is_told = [&table](std::string_view key, const std::string& as) {
    const Result<std::optional<std::string>> told = table.text(key);
    return told.ok() && *told && **told == as;
  };
  const bool has_netdev = table.has("netdev") && !is_told("netdev", name);
  if (!has_netdev && !is_told("rdma", device)) {
    nic.netdev = name;
    return nic;
  }
  nic.rdma = device;
  int port = 1;
  if (device.size() < name.size())
    std::from_chars(name.data() + device.size() + 1, name.data() + name.size(), port);
  if (port >= 1 && port <= kMostPort) nic.port = port;
  return nic;
}

// What the tables of network interfaces told so far. Those that are absent stay until all tables
// were read, so that a place in Machine::nics means one device.
struct ToldNics {
  std::map<std::size_t, std::string> names;  // by place: by which its table called it
  std::set<std::size_t> absent;              // places
  std::vector<std::string> missing;          // said to be absent, and were not there
};

// The place of the device that a table means; the end: a new one.
std::size_t place_of_nic(const std::string& name, const Machine& machine, const ToldNics& told) {
  // The table before may have given it another name.
  for (const auto& [place, other] : told.names)
    if (other == name) return place;
  auto nic = std::ranges::find(machine.nics, name, &Nic::name);
  // An RDMA card goes by its network interface's name, too.
  if (nic == machine.nics.end()) nic = std::ranges::find(machine.nics, name, &Nic::netdev);
  return static_cast<std::size_t>(nic - machine.nics.begin());
}

// The place of a device that its source knows by its PCI address alone, if the table has the
// address; the end: none.
std::size_t place_by_address(TomlTable& table, const Machine& machine) {
  const Result<std::optional<std::string>> told = table.text("pci");
  const std::optional<std::string> address =
      told.ok() && *told ? hardware::pci_address(**told) : std::nullopt;
  const auto nic = std::ranges::find_if(machine.nics, [&](const Nic& each) {
    return address && each.name() == *address && each.place.address == *address;
  });
  return static_cast<std::size_t>(nic - machine.nics.begin());
}

Result<std::string> take_nic(TomlTable& table, Machine& machine, ToldNics& told) {
  WEFT_ASSIGN(const std::optional<std::string> name, table.text("name"));
  if (!name || name->empty()) return table.wrong("a [[nic]] needs a name: \"mlx5_0\", \"eth0\"");
  WEFT_ASSIGN(const std::optional<bool> absent, table.boolean("absent"));
  std::size_t place = place_of_nic(*name, machine, told);
  if (place == machine.nics.size()) {
    place = place_by_address(table, machine);
    if (place < machine.nics.size()) {
      const Nic named = new_nic(table, *name);
      machine.nics[place].rdma = named.rdma;
      machine.nics[place].netdev = named.netdev;
      machine.nics[place].port = named.port;
    }
  }
  if (place == machine.nics.size()) {
    (absent.value_or(false) ? told.missing : machine.added).push_back(*name);
    machine.nics.push_back(new_nic(table, *name));
  }
  if (absent.value_or(false)) told.absent.insert(place);
  Nic* nic = &machine.nics[place];
  WEFT_RETURN_IF_ERROR(take(table, "rdma", nic->rdma));
  WEFT_RETURN_IF_ERROR(take(table, "port", nic->port, 1, kMostPort));
  WEFT_RETURN_IF_ERROR(take(table, "netdev", nic->netdev));
  WEFT_RETURN_IF_ERROR(take(table, "mbit_per_s", nic->mbit_per_s, 1, kMostMbit));
  WEFT_RETURN_IF_ERROR(take(table, "bond", nic->bond));
  WEFT_ASSIGN(const std::optional<bool> shared, table.boolean("virtual_function"));
  nic->is_virtual_function = shared.value_or(nic->is_virtual_function);
  WEFT_RETURN_IF_ERROR(take_place(table, machine, nic->place));
  WEFT_RETURN_IF_ERROR(table.done());
  return told.names.emplace(place, *name).first->second;
}

void leave_out(const std::set<std::size_t>& absent, Machine& machine) {
  for (auto place = absent.rbegin(); place != absent.rend(); ++place)
    machine.nics.erase(machine.nics.begin() + static_cast<std::ptrdiff_t>(*place));
}

Result<std::string> take_gpu(TomlTable& table, Machine& machine) {
  int index = -1;
  WEFT_RETURN_IF_ERROR(take(table, "index", index, 0, kMostIndex));
  if (index < 0) return table.wrong("a [[gpu]] needs an index");
  auto gpu = std::ranges::find(machine.gpus, index, &Gpu::index);
  if (gpu == machine.gpus.end()) {
    Gpu added;
    added.index = index;
    machine.added.push_back(fmt::format("GPU {}", index));
    machine.gpus.push_back(std::move(added));
    gpu = machine.gpus.end() - 1;
  }
  WEFT_RETURN_IF_ERROR(take(table, "model", gpu->model));
  WEFT_RETURN_IF_ERROR(take(table, "uuid", gpu->uuid));
  WEFT_RETURN_IF_ERROR(take_place(table, machine, gpu->place));
  WEFT_RETURN_IF_ERROR(table.done());
  return fmt::format("GPU {}", index);
}

Status take_kind(TomlTable& table, GpuLinkKind& kind) {
  WEFT_ASSIGN(const std::optional<std::string> given, table.text("kind"));
  if (!given) return {};
  if (*given != "nvlink" && *given != "xgmi")
    return table.wrong("kind", fmt::format("'{}' is neither \"nvlink\" nor \"xgmi\"", *given));
  kind = *given == "xgmi" ? GpuLinkKind::xgmi : GpuLinkKind::nvlink;
  return {};
}

Result<std::string> take_link(TomlTable& table, Machine& machine) {
  GpuLink link;
  link.gpu = -1;
  WEFT_RETURN_IF_ERROR(take(table, "gpu", link.gpu, 0, kMostIndex));
  WEFT_RETURN_IF_ERROR(take(table, "peer", link.peer, 0, kMostIndex));
  WEFT_RETURN_IF_ERROR(take(table, "lanes", link.lanes, 1, 1024));
  WEFT_RETURN_IF_ERROR(take(table, "gbyte_per_s", link.gbyte_per_s));
  WEFT_RETURN_IF_ERROR(take_kind(table, link.kind));
  const auto known = [&machine](int index) {
    return std::ranges::count(machine.gpus, index, &Gpu::index) != 0;
  };
  if (link.gpu == link.peer) return table.wrong("peer", "a GPU is no peer of its own");
  if (!known(link.gpu)) return table.wrong("gpu", "a [[gpu_link]] needs the index of a GPU");
  if (link.peer != GpuLink::kSwitch && !known(link.peer))
    return table.wrong("peer", "there is no GPU of that index; leave it out for a switch");
  std::erase_if(machine.gpu_links, [&link](const GpuLink& each) {
    return each.gpu == link.gpu && each.peer == link.peer;
  });
  machine.gpu_links.push_back(link);
  machine.are_gpu_links_known = true;
  WEFT_RETURN_IF_ERROR(table.done());
  return fmt::format(
      "GPU {} to {}", link.gpu,
      link.peer == GpuLink::kSwitch ? "the switch" : fmt::format("GPU {}", link.peer));
}

// `take` gives a name of the device that the table is of, the same for all of its tables: a second
// one would silently undo the first.
template <typename Take>
Status take_each(TomlTable& file, std::string_view key, Machine& machine, Take take) {
  WEFT_ASSIGN(std::vector<TomlTable> tables, file.tables(key));
  if (tables.size() > hardware::kMostDevices)
    return file.wrong(key, fmt::format("more than {} of them", hardware::kMostDevices));
  std::map<std::string, int> lines;
  for (TomlTable& table : tables) {
    WEFT_ASSIGN(const std::string which, take(table, machine));
    const auto [first, is_new] = lines.emplace(which, table.line());
    if (!is_new) {
      return table.wrong(
          fmt::format("a second [[{}]] of {}: the first is in line {}", key, which, first->second));
    }
  }
  return {};
}

// With those of earlier corrections; of many, the first few.
std::vector<std::string> all_added(const Machine& before, const std::vector<std::string>& devices,
                                   const std::string& path) {
  hardware::LeftOut gathered;
  for (const std::string& device : devices) gathered.add("by " + path, device);
  std::vector<std::string> added = before.added;
  for (std::string& phrase : gathered.phrases()) added.push_back(std::move(phrase));
  return added;
}

}  // namespace

Status correct_machine(Machine& machine, const std::string& path) {
  WEFT_ASSIGN(TomlTable file, read_toml(path));
  Machine corrected = machine;
  corrected.added.clear();
  ToldNics told;
  const auto take_known = [&told](TomlTable& table, Machine& into) {
    return take_nic(table, into, told);
  };
  WEFT_RETURN_IF_ERROR(take_each(file, "nic", corrected, take_known));
  leave_out(told.absent, corrected);
  WEFT_RETURN_IF_ERROR(take_each(file, "gpu", corrected, take_gpu));
  WEFT_RETURN_IF_ERROR(take_each(file, "gpu_link", corrected, take_link));
  WEFT_RETURN_IF_ERROR(file.done());
  hardware::settle(corrected);
  if (const Status status = hardware::check_names(corrected); !status.ok())
    return file.wrong(status.text());
  corrected.added = all_added(machine, corrected.added, path);
  corrected.source += fmt::format(", corrected by {}", path);
  if (!told.missing.empty()) {
    corrected.source += fmt::format(" (which says that {} is absent: it was not there)",
                                    fmt::join(told.missing, ", "));
  }
  machine = std::move(corrected);
  return {};
}

}  // namespace weft
