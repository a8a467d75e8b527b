// Rings for NCCL (NCCL_GRAPH_FILE): a channel for each network interface. Data comes in over the interface to a GPU
// next to it, passes all others, and leaves from another GPU next to it, or the last.
#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>
#include <sstream>

#include "topology/hardware/hardware.h"

namespace weft {
namespace {

constexpr int kRing = 4;  // NCCL's number of the pattern

// NCCL's word for how near two devices are; the farther of both.
std::string_view word_of(Nearness nearness) {
  switch (nearness) {
    case Nearness::same_device:
    case Nearness::one_switch:
      return "PIX";
    case Nearness::switches:
      return "PXB";
    case Nearness::host_bridge:
    case Nearness::numa_node:
      return "PHB";
    default:
      return "SYS";
  }
}

Nearness near(const Gpu& gpu, const Nic& nic) {
  return distance(gpu.place, nic.place).nearness;
}

// RDMA ports where there are any.
std::vector<const Nic*> interfaces_of(const Machine& machine) {
  std::vector<const Nic*> found;
  const bool has_rdma =
      std::ranges::any_of(machine.nics, [](const Nic& nic) { return !nic.rdma.empty(); });
  for (const Nic& nic : machine.nics)
    if (nic.rdma.empty() != has_rdma && !is_counted_elsewhere(nic, machine)) found.push_back(&nic);
  return found;
}

struct Ring {
  int net = 0;  // number of the interface
  std::vector<const Gpu*> gpus;
  Nearness farthest = Nearness::same_device;  // of the interface from both ends
};

// `firsts`: how many rings begin at each GPU, so that interfaces with the same neighbors share them out.
Ring ring_of(const Machine& machine, const Nic& nic, int number, std::vector<int>& firsts) {
  Ring ring;
  ring.net = number;
  for (const Gpu& gpu : machine.gpus) ring.gpus.push_back(&gpu);
  const auto place = [&](const Gpu* gpu) {
    return static_cast<std::size_t>(gpu - machine.gpus.data());
  };
  const auto first = std::ranges::min_element(ring.gpus, {}, [&](const Gpu* gpu) {
    return std::pair(near(*gpu, nic), firsts[place(gpu)]);
  });
  ++firsts[place(*first)];
  std::ranges::rotate(ring.gpus, first);
  const auto last =
      std::min_element(ring.gpus.begin() + 1, ring.gpus.end(),
                       [&](const Gpu* a, const Gpu* b) { return near(*a, nic) < near(*b, nic); });
  if (last != ring.gpus.end()) std::rotate(last, last + 1, ring.gpus.end());
  ring.farthest = std::max(near(*ring.gpus.front(), nic), near(*ring.gpus.back(), nic));
  return ring;
}

// What a GPU's links carry; else its PCI link. 0: unknown.
double gbyte_of(const Machine& machine, const Gpu& gpu) {
  double gbyte = 0;
  for (const GpuLink& link : machine.gpu_links)
    if (link.gpu == gpu.index) gbyte += link.gbyte_per_s;
  return gbyte > 0 ? gbyte : gpu.place.gbyte_per_s;
}

}  // namespace

Result<std::string> nccl_graph(const Machine& machine) {
  const std::vector<const Nic*> nics = interfaces_of(machine);
  if (nics.empty() || machine.gpus.empty()) {
    return Status(
        Code::invalid_argument,
        fmt::format("rings for NCCL need GPUs and network interfaces; the machine has {} and {}",
                    machine.gpus.size(), nics.size()));
  }
  std::vector<Ring> rings;
  std::vector<int> firsts(machine.gpus.size());
  double inter = 0, intra = 0;
  Nearness farthest = Nearness::same_device, between = Nearness::same_device;
  for (const Nic* nic : nics) {
    const double gbyte = carried_mbit_per_s(*nic) / 8e3;
    if (gbyte <= 0) {
      return Status(
          Code::invalid_argument,
          fmt::format(
              "the rate of {} is unknown; a correction can say it ([[nic]] with mbit_per_s)",
              nic->name()));
    }
    inter = inter == 0 ? gbyte : std::min(inter, gbyte);
    rings.push_back(ring_of(machine, *nic, static_cast<int>(rings.size()), firsts));
    farthest = std::max(farthest, rings.back().farthest);
    for (std::size_t i = 1; i < rings.back().gpus.size(); ++i)
      between = std::max(
          between, distance(rings.back().gpus[i - 1]->place, rings.back().gpus[i]->place).nearness);
  }
  for (const Gpu& gpu : machine.gpus) {
    const double each = gbyte_of(machine, gpu) / static_cast<double>(rings.size());
    intra = intra == 0 ? each : std::min(intra, each);
  }

  pugi::xml_document document;
  pugi::xml_node graphs = document.append_child("graphs");
  graphs.append_attribute("version") = 1;
  pugi::xml_node graph = graphs.append_child("graph");
  graph.append_attribute("id") = 0;
  graph.append_attribute("pattern") = kRing;
  graph.append_attribute("crossnic") = 0;
  graph.append_attribute("nchannels") = static_cast<int>(rings.size());
  graph.append_attribute("speedintra") = fmt::format("{:.1f}", intra > 0 ? intra : inter).c_str();
  graph.append_attribute("speedinter") = fmt::format("{:.1f}", inter).c_str();
  graph.append_attribute("latencyinter") = 0;
  graph.append_attribute("typeintra") =
      std::string(machine.gpu_links.empty() ? word_of(between) : "NVL").c_str();
  graph.append_attribute("typeinter") = std::string(word_of(farthest)).c_str();
  graph.append_attribute("samechannels") = 0;
  // Old versions of NCCL read decimal numbers, new ones hexadecimal ones; both understand 0x.
  const auto add = [](pugi::xml_node channel, const char* kind, int number) {
    channel.append_child(kind).append_attribute("dev") = fmt::format("0x{:x}", number).c_str();
  };
  for (const Ring& ring : rings) {
    pugi::xml_node channel = graph.append_child("channel");
    add(channel, "net", ring.net);
    for (const Gpu* gpu : ring.gpus) add(channel, "gpu", gpu->index);
    add(channel, "net", ring.net);
  }
  std::ostringstream text;
  document.save(text, "  ", pugi::format_default | pugi::format_no_declaration);
  return text.str();
}

}  // namespace weft
