// Topology files of NCCL (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): <system> has <cpu numaid=…> with
// nested <pci busid=… link_speed="16 GT/s" link_width="16">, in which <gpu dev=…> has <nvlink
// target=… count=…>, and <nic> has <net name=… speed=…>.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <pugixml.hpp>

#include "topology/hardware/sources.h"

namespace weft::hardware {
namespace {

// As deep as NCCL's own parser goes, and more than any machine.
constexpr int kDeepest = 32;
// One lane, one way, in gigabytes per second, after the line's code.
constexpr double kOldCode = 8.0 / 10;     // up to 5 GT/s
constexpr double kNewCode = 128.0 / 130;  // from 8 GT/s
constexpr double kOldCodeMost = 5.0;
// NVLink by compute capability: one link, one way.
constexpr int kHopper = 90, kAmpere = 80;
constexpr double kNvlinkHopper = 25.0, kNvlinkAmpere = 25.0, kNvlinkOlder = 20.0;
// The class of a target that is a switch, and of a bridge, as sysfs writes them.
constexpr std::string_view kSwitchClass = "0x0680";
constexpr std::string_view kBridgeClass = "0x0604";

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  Result<Machine> read(const std::string& text) {
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
    if (!parsed) return wrong(text, parsed.offset, parsed.description());
    const pugi::xml_node system = document.child("system");
    if (!system) return wrong(text, 0, "there is no <system>");
    for (const pugi::xml_node cpu : system.children("cpu")) {
      WEFT_RETURN_IF_ERROR(add_cpu(text, cpu));
    }
    if (machine_.nodes.empty()) return wrong(text, 0, "<system> has no <cpu>");
    resolve_links();
    machine_.are_gpu_links_told = true;
    machine_.packages = static_cast<int>(machine_.nodes.size());
    return std::move(machine_);
  }

 private:
  struct Target {
    int gpu;
    std::string address;
    bool is_switch;
    int lanes;
    double gbyte_per_s;
  };

  [[nodiscard]] Status wrong(const std::string& text, std::ptrdiff_t offset,
                             std::string_view what) const {
    const auto until = text.begin() + std::clamp<std::ptrdiff_t>(
                                          offset, 0, static_cast<std::ptrdiff_t>(text.size()));
    return Status(Code::invalid_argument,
                  fmt::format("{}:{}: {}", name_, 1 + std::count(text.begin(), until, '\n'), what));
  }

  Status add_cpu(const std::string& text, pugi::xml_node cpu) {
    const int node = cpu.attribute("numaid").as_int(-1);
    if (node < 0) return wrong(text, cpu.offset_debug(), "<cpu> needs numaid");
    if (machine_.cpu.empty()) machine_.cpu = cpu.attribute("arch").as_string();
    machine_.nodes.push_back({node, 0, 0, static_cast<int>(machine_.nodes.size())});
    PciPlace place;
    place.numa_node = node;
    place.package = machine_.nodes.back().package;
    return add_below(text, cpu, place, 0);
  }

  // NCCL has no host bridges: a root port is what its <cpu> holds.
  Status add_below(const std::string& text, pugi::xml_node parent, const PciPlace& place,
                   int depth) {
    if (depth > kDeepest) return wrong(text, parent.offset_debug(), "nested too deep");
    for (const pugi::xml_node pci : parent.children("pci")) {
      const std::string address = pci.attribute("busid").as_string();
      if (address.empty()) return wrong(text, pci.offset_debug(), "<pci> needs busid");
      PciPlace here = place;
      here.host_bridge = fmt::format("node {}", place.numa_node);
      const double rate = link_rate(pci);
      const std::string_view kind = pci.attribute("class").as_string();
      if (kind.starts_with(kBridgeClass) || pci.child("pci")) {
        here.bridges.push_back({address, rate});
      } else {
        here.address = address;
        here.gbyte_per_s = rate;
      }
      WEFT_RETURN_IF_ERROR(add_below(text, pci, here, depth + 1));
      if (const pugi::xml_node gpu = pci.child("gpu")) add_gpu(gpu, here);
      for (const pugi::xml_node nic : pci.children("nic")) add_nets(nic, here);
    }
    for (const pugi::xml_node nic : parent.children("nic")) {
      if (std::strcmp(parent.name(), "cpu") == 0) add_nets(nic, place);
    }
    return {};
  }

  void add_gpu(pugi::xml_node node, const PciPlace& place) {
    Gpu gpu;
    gpu.index = node.attribute("dev").as_int(static_cast<int>(machine_.gpus.size()));
    gpu.place = place;
    const int capability = node.attribute("sm").as_int(0);
    const double each = capability >= kHopper   ? kNvlinkHopper
                        : capability >= kAmpere ? kNvlinkAmpere
                                                : kNvlinkOlder;
    for (const pugi::xml_node link : node.children("nvlink")) {
      const std::string_view kind = link.attribute("tclass").as_string();
      const int lanes = link.attribute("count").as_int(1);
      targets_.push_back({gpu.index, link.attribute("target").as_string(),
                          kind.starts_with(kSwitchClass), lanes, lanes * each});
    }
    machine_.gpus.push_back(std::move(gpu));
  }

  // One per port, also where several share an RDMA device.
  void add_nets(pugi::xml_node nic, const PciPlace& place) {
    for (const pugi::xml_node net : nic.children("net")) {
      Nic found;
      const std::string name = net.attribute("name").as_string();
      // RDMA devices have no colon and no dot in their names, and a GUID.
      const bool is_rdma = net.attribute("guid").as_ullong(0) != 0;
      (is_rdma ? found.rdma : found.netdev) = name;
      found.port = net.attribute("port").as_int(1);
      found.mbit_per_s = net.attribute("speed").as_int(-1);
      found.place = place;
      if (!name.empty()) machine_.nics.push_back(std::move(found));
    }
  }

  // "16.0 GT/s PCIe" and a width, or nothing.
  static double link_rate(pugi::xml_node pci) {
    const std::string_view speed = pci.attribute("link_speed").as_string();
    double transfers = 0;
    std::from_chars(speed.data(), speed.data() + speed.size(), transfers);
    const double code = transfers <= kOldCodeMost ? kOldCode : kNewCode;
    return transfers * code / 8 * pci.attribute("link_width").as_int(0);
  }

  void resolve_links() {
    std::ranges::sort(machine_.gpus, {}, &Gpu::index);
    std::ranges::sort(machine_.nics, {}, &Nic::name);
    for (const Target& target : targets_) {
      GpuLink link{target.gpu, GpuLink::kSwitch, target.lanes, target.gbyte_per_s};
      const auto peer = std::ranges::find(machine_.gpus, target.address,
                                          [](const Gpu& gpu) { return gpu.place.address; });
      if (!target.is_switch && peer == machine_.gpus.end()) continue;  // a CPU's own
      if (!target.is_switch) link.peer = peer->index;
      machine_.gpu_links.push_back(link);
    }
  }

  std::string name_;
  Machine machine_;
  std::vector<Target> targets_;
};

}  // namespace

Result<Machine> parse_nccl(const std::string& text, const std::string& name) {
  return Reader(name).read(text);
}

}  // namespace weft::hardware
