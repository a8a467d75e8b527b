// A machine as a topology file of NCCL. NCCL finds devices in it by their PCI addresses and names, keeps what
// the file says, and asks the driver for what it lacks (compute capabilities, GPUDirect).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <pugixml.hpp>
#include <sstream>

#include "topology/hardware/hardware.h"

namespace weft {
namespace {

constexpr const char* kBridgeClass = "0x060400";
constexpr const char* kGpuClass = "0x030200";
constexpr const char* kEthernetClass = "0x020000";
constexpr const char* kInfinibandClass = "0x020700";

struct Width {
  double gt_per_s = 0;
  int lanes = 0;
};

// Of the links with such a rate that with most lanes: cards have wide links. 0: the rate is unknown.
Width width_of(double gbyte_per_s) {
  constexpr double kOldCodeMost = 5, kTolerance = 0.03;
  for (const int lanes : {16, 8, 4, 2, 1}) {
    for (const double gt : {2.5, 5.0, 8.0, 16.0, 32.0, 64.0}) {
      const double gbyte = gt * lanes / 8 * (gt <= kOldCodeMost ? 8.0 / 10 : 128.0 / 130);
      if (gbyte_per_s > gbyte * (1 - kTolerance) && gbyte_per_s < gbyte * (1 + kTolerance))
        return {gt, lanes};
    }
  }
  return {};
}

// The kernel's mask: words of 32 bits, the highest numbers first.
std::string mask_of(const std::vector<int>& processors) {
  constexpr int kWord = 32;
  std::vector<std::uint32_t> words(1);
  for (const int processor : processors) {
    const auto word = static_cast<std::size_t>(processor / kWord);
    if (word >= words.size()) words.resize(word + 1);
    words[word] |= 1U << (processor % kWord);
  }
  std::string text;
  for (std::size_t i = words.size(); i-- > 0;)
    text += fmt::format("{:08x}{}", words[i], i == 0 ? "" : ",");
  return text;
}

class NcclWriter {
 public:
  explicit NcclWriter(const Machine& machine) : machine_(machine) {}

  Result<std::string> write() {
    system_ = document_.append_child("system");
    system_.append_attribute("version") = "1";
    for (const NumaNode& node : machine_.nodes)
      if (node.cores > 0 || !node.processors.empty()) (void)cpu_of(node.index);
    for (const Gpu& gpu : machine_.gpus) WEFT_RETURN_IF_ERROR(add(gpu));
    for (const Nic& nic : machine_.nics) add(nic);
    std::ostringstream text;
    document_.save(text, "  ", pugi::format_default | pugi::format_no_declaration);
    return text.str();
  }

 private:
  // A node that is not listed, as -1 is, gets an element, too.
  pugi::xml_node cpu_of(int index) {
    const auto known = cpus_.find(index);
    if (known != cpus_.end()) return known->second;
    pugi::xml_node cpu = system_.append_child("cpu");
    cpu.append_attribute("numaid") = index;
    const auto node = std::ranges::find(machine_.nodes, index, &NumaNode::index);
    if (node != machine_.nodes.end() && !node->processors.empty())
      cpu.append_attribute("affinity") = mask_of(node->processors).c_str();
    add_kind(cpu);
    cpus_[index] = cpu;
    return cpu;
  }

  // NCCL knows the width of links between sockets by these.
  void add_kind(pugi::xml_node cpu) const {
    const auto has = [this](const char* word) {
      return machine_.cpu.find(word) != std::string::npos;
    };
    const bool is_arm =
        has("Neoverse") || has("Grace") || has("arm") || has("Arm") || has("aarch64");
    if (is_arm || has("POWER")) {
      cpu.append_attribute("arch") = is_arm ? "arm64" : "ppc64";
      return;
    }
    cpu.append_attribute("arch") = "x86_64";
    cpu.append_attribute("vendor") = has("AMD") ? "AuthenticAMD" : "GenuineIntel";
    cpu.append_attribute("familyid") = has("AMD") ? 175 : 6;
    cpu.append_attribute("modelid") = has("AMD") ? 17 : 143;
  }

  static pugi::xml_node pci_in(pugi::xml_node parent, const std::string& address, const char* kind,
                               double gbyte_per_s) {
    for (const pugi::xml_node known : parent.children("pci"))
      if (address == known.attribute("busid").as_string()) return known;
    pugi::xml_node pci = parent.append_child("pci");
    pci.append_attribute("busid") = address.c_str();
    pci.append_attribute("class") = kind;
    const Width width = width_of(gbyte_per_s);
    pci.append_attribute("link_speed") =
        width.lanes == 0 ? "" : fmt::format("{:.1f} GT/s PCIe", width.gt_per_s).c_str();
    pci.append_attribute("link_width") = width.lanes;
    return pci;
  }

  pugi::xml_node device_at(const PciPlace& place, const char* kind) {
    pugi::xml_node at = cpu_of(place.numa_node);
    for (const PciBridge& bridge : place.bridges)
      at = pci_in(at, bridge.address, kBridgeClass, bridge.gbyte_per_s);
    return pci_in(at, place.address, kind, place.gbyte_per_s);
  }

  Status add(const Gpu& gpu) {
    if (gpu.place.address.empty()) {
      return Status(
          Code::invalid_argument,
          fmt::format(
              "the PCI address of GPU {} is unknown, and NCCL finds GPUs by it; a correction "
              "can say it ([[gpu]] with pci)",
              gpu.index));
    }
    pugi::xml_node node = device_at(gpu.place, kGpuClass).append_child("gpu");
    node.append_attribute("dev") = gpu.index;
    for (const GpuLink& link : machine_.gpu_links)
      if (link.gpu == gpu.index) add_link(node, link);
    return {};
  }

  // Of a link to a switch, NCCL looks at the class only.
  void add_link(pugi::xml_node gpu, const GpuLink& link) const {
    const auto peer = std::ranges::find(machine_.gpus, link.peer, &Gpu::index);
    const bool is_switch = link.peer == GpuLink::kSwitch;
    if (!is_switch && peer == machine_.gpus.end()) return;
    pugi::xml_node node = gpu.append_child(link.kind == GpuLinkKind::xgmi ? "xgmi" : "nvlink");
    node.append_attribute("target") = is_switch ? "fffffff:ffff:ff" : peer->place.address.c_str();
    node.append_attribute("count") = std::max(link.lanes, 1);
    node.append_attribute("tclass") = is_switch ? "0x068000" : "0x030200";
  }

  // An interface without a place on PCI is below the first <cpu>, where NCCL puts it as well.
  void add(const Nic& nic) {
    const bool is_rdma = !nic.rdma.empty();
    const bool is_on_pci = !nic.place.address.empty();
    pugi::xml_node parent = is_on_pci
                                ? device_at(nic.place, is_rdma ? kInfinibandClass : kEthernetClass)
                            : system_.child("cpu") ? system_.child("cpu")
                                                   : cpu_of(-1);
    if (!parent.child("nic")) parent.append_child("nic");
    pugi::xml_node net = parent.child("nic").append_child("net");
    net.append_attribute("name") = is_rdma ? nic.rdma.c_str() : nic.netdev.c_str();
    net.append_attribute("dev") = number_++;
    if (nic.mbit_per_s > 0) net.append_attribute("speed") = nic.mbit_per_s;
    net.append_attribute("port") = is_rdma ? nic.port : 0;
  }

  const Machine& machine_;
  pugi::xml_document document_;
  pugi::xml_node system_;
  std::map<int, pugi::xml_node> cpus_;
  int number_ = 0;
};

}  // namespace

Result<std::string> nccl_topology(const Machine& machine) {
  return NcclWriter(machine).write();
}

}  // namespace weft
