// What hwloc's XML has no place for: rates, which RDMA port is which network interface, NVLink. It is
// kept in "misc" objects below the machine, with one "information" of name and value per field, which
// every version of hwloc passes on.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "topology/hardware/files.h"

namespace weft::hardware {
namespace {

constexpr const char* kNic = "weft:nic";
constexpr const char* kGpu = "weft:gpu";
constexpr const char* kLink = "weft:gpu-link";
constexpr const char* kAll = "weft:devices";
constexpr const char* kXgmi = "xgmi";

// One for each phrase.
constexpr const char* kUnreadable = "untold";
constexpr const char* kAdded = "added";
constexpr const char* kLeftOut = "left_out";

constexpr std::size_t kMostBridges = 64;
constexpr std::size_t kMostPhrases = 16;
constexpr double kMostGbyte = 1e6;

// One that is written.
struct Note {
  const Hwloc* hwloc;
  hwloc_obj_t object;  // null: hwloc has no memory for it
};

void add(const Note& note, const char* key, const std::string& text) {
  if (!text.empty()) note.hwloc->add_info(note.object, key, text.c_str());
}

void add(const Note& note, const char* key, double number) {
  add(note, key, fmt::format("{}", number));
}

void add(const Note& note, const char* key, int number) {
  add(note, key, fmt::format("{}", number));
}

std::string text_of(hwloc_obj_t note, const char* key) {
  const char* text = hwloc_obj_get_info_by_name(note, key);
  return text != nullptr ? text : "";
}

template <typename Number>
Number number_of(hwloc_obj_t note, const char* key, Number otherwise) {
  const std::string text = text_of(note, key);
  Number number = otherwise;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? number : otherwise;
}

// Words and numbers, with blanks between them. What is no number ends the list.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty() && words.size() < kMostBridges) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end != 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

double rate_in(std::string_view word) {
  double rate = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), rate);
  return error == std::errc{} && rate > 0 && rate < kMostGbyte ? rate : 0;
}

// hwloc's place of the address, unless the note has its own. Devices that are not on PCI have a
// node at most.
PciPlace place_in(const Topology& topology, hwloc_obj_t note) {
  PciPlace place;
  const std::string address = text_of(note, "pci");
  const std::string host_bridge = text_of(note, "host_bridge");
  if (!address.empty() && host_bridge.empty()) place = place_of(topology, address);
  if (!host_bridge.empty()) {
    const std::string names = text_of(note, "bridges"), rates = text_of(note, "gbyte_per_s");
    place.address = address;
    place.host_bridge = host_bridge;
    // The device's own rate is the last.
    const std::vector<std::string_view> rate = words_of(rates);
    for (const std::string_view bridge : words_of(names)) {
      const std::size_t i = place.bridges.size();
      place.bridges.push_back({std::string(bridge), i < rate.size() ? rate_in(rate[i]) : 0});
    }
    if (rate.size() > place.bridges.size()) place.gbyte_per_s = rate_in(rate.back());
    place.package = number_of(note, "package", -1);
  }
  if (place.numa_node < 0) place.numa_node = number_of(note, "numa_node", -1);
  return place;
}

// Only what hwloc does not say of that address itself.
void put_place(const Topology& topology, const Note& note, const PciPlace& place) {
  add(note, "pci", place.address);
  if (!place.is_node_assumed) add(note, "numa_node", place.numa_node);
  PciPlace known;
  if (!place.address.empty()) known = place_of(topology, place.address);
  if (place.host_bridge.empty() ||
      (known.host_bridge == place.host_bridge && known.bridges == place.bridges &&
       known.gbyte_per_s == place.gbyte_per_s))
    return;
  std::string names, rates;
  for (const PciBridge& bridge : place.bridges) {
    names += fmt::format("{} ", bridge.address);
    rates += fmt::format("{} ", bridge.gbyte_per_s);
  }
  add(note, "host_bridge", place.host_bridge);
  add(note, "bridges", names);
  add(note, "gbyte_per_s", rates + fmt::format("{}", place.gbyte_per_s));
  if (!place.is_node_assumed) add(note, "package", place.package);
}

Note new_note(const Topology& topology, const char* name) {
  const Hwloc& hwloc = topology.hwloc();
  return {&hwloc, hwloc.insert_misc_object(topology.get(), topology.root(), name)};
}

std::string_view kind_of(hwloc_obj_t note) {
  return note->name != nullptr ? note->name : "";
}

void take_nic(const Topology& topology, hwloc_obj_t note, Machine& machine) {
  Nic nic;
  nic.rdma = text_of(note, "rdma");
  nic.port = number_of(note, "port", 1);
  nic.netdev = text_of(note, "netdev");
  nic.mbit_per_s = number_of(note, "mbit_per_s", -1);
  nic.is_virtual_function = number_of(note, "virtual_function", 0) != 0;
  nic.physical_function = text_of(note, "physical_function");
  nic.bond = text_of(note, "bond");
  nic.place = place_in(topology, note);
  if (!nic.name().empty()) machine.nics.push_back(std::move(nic));
}

void take_gpu(const Topology& topology, hwloc_obj_t note, Machine& machine) {
  Gpu gpu;
  gpu.index = number_of(note, "index", static_cast<int>(machine.gpus.size()));
  gpu.model = text_of(note, "model");
  gpu.memory_bytes = number_of(note, "memory_bytes", std::uint64_t{0});
  gpu.uuid = text_of(note, "uuid");
  const std::string migs = text_of(note, "mig_uuids");
  for (const std::string_view mig : words_of(migs)) gpu.mig_uuids.emplace_back(mig);
  gpu.place = place_in(topology, note);
  machine.gpus.push_back(std::move(gpu));
}

void take_link(hwloc_obj_t note, Machine& machine) {
  const GpuLinkKind kind = text_of(note, "kind") == kXgmi ? GpuLinkKind::xgmi : GpuLinkKind::nvlink;
  machine.gpu_links.push_back({number_of(note, "gpu", 0), number_of(note, "peer", GpuLink::kSwitch),
                               number_of(note, "lanes", 0), number_of(note, "gbyte_per_s", 0.0),
                               kind});
  machine.are_gpu_links_known = true;
}

void take_phrases(hwloc_obj_t note, Machine& machine) {
  const auto take = [](const hwloc_info_s& info, const char* key, std::vector<std::string>& into) {
    if (std::string_view(info.name) == key && into.size() < kMostPhrases)
      into.emplace_back(info.value);
  };
  for (unsigned i = 0; i < note->infos_count; ++i) {
    take(note->infos[i], kUnreadable, machine.unreadable);
    take(note->infos[i], kAdded, machine.added);
    take(note->infos[i], kLeftOut, machine.left_out);
  }
}

}  // namespace

void put_notes(const Topology& topology, const Machine& machine) {
  const Note all = new_note(topology, kAll);
  if (all.object == nullptr) return;
  add(all, "links_told", machine.are_gpu_links_known ? 1 : 0);
  for (const std::string& what : machine.unreadable) add(all, kUnreadable, what);
  for (const std::string& what : machine.added) add(all, kAdded, what);
  for (const std::string& what : machine.left_out) add(all, kLeftOut, what);
  for (const Nic& nic : machine.nics) {
    const Note note = new_note(topology, kNic);
    if (note.object == nullptr) return;
    add(note, "rdma", nic.rdma);
    add(note, "port", nic.port);
    add(note, "netdev", nic.netdev);
    add(note, "mbit_per_s", nic.mbit_per_s);
    add(note, "virtual_function", nic.is_virtual_function ? 1 : 0);
    add(note, "physical_function", nic.physical_function);
    add(note, "bond", nic.bond);
    put_place(topology, note, nic.place);
  }
  for (const Gpu& gpu : machine.gpus) {
    const Note note = new_note(topology, kGpu);
    if (note.object == nullptr) return;
    add(note, "index", gpu.index);
    add(note, "model", gpu.model);
    add(note, "memory_bytes", fmt::format("{}", gpu.memory_bytes));
    add(note, "uuid", gpu.uuid);
    add(note, "mig_uuids", fmt::format("{}", fmt::join(gpu.mig_uuids, " ")));
    put_place(topology, note, gpu.place);
  }
  for (const GpuLink& link : machine.gpu_links) {
    const Note note = new_note(topology, kLink);
    if (note.object == nullptr) return;
    add(note, "gpu", link.gpu);
    add(note, "peer", link.peer);
    add(note, "lanes", link.lanes);
    add(note, "gbyte_per_s", link.gbyte_per_s);
    if (link.kind == GpuLinkKind::xgmi) add(note, "kind", kXgmi);
  }
}

bool has_notes(const Topology& topology) {
  hwloc_obj_t note = nullptr;
  while ((note = topology.next(HWLOC_OBJ_MISC, note)) != nullptr) {
    if (kind_of(note).starts_with(kNotePrefix)) return true;
  }
  return false;
}

void take_notes(const Topology& topology, Machine& machine) {
  machine.nics.clear();
  machine.gpus.clear();
  machine.left_out.clear();
  hwloc_obj_t note = nullptr;
  while ((note = topology.next(HWLOC_OBJ_MISC, note)) != nullptr) {
    const std::string_view kind = kind_of(note);
    if (kind == kNic) take_nic(topology, note, machine);
    if (kind == kGpu) take_gpu(topology, note, machine);
    if (kind == kLink) take_link(note, machine);
    if (kind == kAll) {
      machine.are_gpu_links_known = number_of(note, "links_told", 0) != 0;
      take_phrases(note, machine);
    }
  }
}

}  // namespace weft::hardware
