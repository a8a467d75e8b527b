// Topology files of NCCL (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): <system> has <cpu numaid=…> with
// nested <pci busid=… link_speed="16 GT/s" link_width="16">, in which <gpu dev=…> has <nvlink
// target=… count=…>, and <nic> has <net name=… speed=…>.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "topology/hardware/sources.h"
#include "topology/hardware/xml.h"

namespace weft::hardware {
namespace {

// As deep as NCCL's own parser goes, and more than any machine.
constexpr int kDeepest = 32;
constexpr int kMostIndex = 65'535;
constexpr int kUntoldNode = -1;  // as in virtual machines
constexpr int kNoNode = -2;
constexpr std::size_t kMostLinks = 1 << 16;
constexpr int kMostLanes = 1024;
constexpr int kMaskWord = 32;  // bits
constexpr int kMostPort = 255;
constexpr int kMostMbit = 100'000'000;   // 100 Tbit/s
constexpr double kMostTransfers = 1024;  // GT/s: four generations ahead
// One lane, one way, in gigabytes per second, after the line's code.
constexpr double kOldCode = 8.0 / 10;     // up to 5 GT/s
constexpr double kNewCode = 128.0 / 130;  // from 8 GT/s
constexpr double kOldCodeMost = 5.0;
// NVLink by compute capability: one link, one way.
constexpr int kBlackwell = 100, kVolta = 70;
constexpr double kNvlinkBlackwell = 50.0, kNvlinkVolta = 25.0, kNvlinkPascal = 20.0;
// The class of a target that is a switch, and of a bridge, as sysfs writes them.
constexpr std::string_view kSwitchClass = "0x0680";
constexpr std::string_view kBridgeClass = "0x0604";

class Reader {
 public:
  explicit Reader(const XmlFile& file) : file_(file) {}

  Result<Machine> read() {
    for (const pugi::xml_node cpu : file_.root().children("cpu"))
      WEFT_RETURN_IF_ERROR(add_cpu(cpu));
    if (seen_.empty()) return file_.wrong(file_.root(), "<system> has no <cpu>");
    resolve_links();
    machine_.are_gpu_links_told = true;
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

  Result<int> integer(pugi::xml_node node, const char* key, int least, int most, int otherwise) {
    WEFT_ASSIGN(const std::int64_t number, file_.integer(node, key, least, most, otherwise));
    return static_cast<int>(number);
  }

  Status add_cpu(pugi::xml_node cpu) {
    WEFT_ASSIGN(const int node, integer(cpu, "numaid", kUntoldNode, kMostIndex, kNoNode));
    if (node == kNoNode) return file_.wrong(cpu, "<cpu> needs numaid");
    if (machine_.nodes.size() == kMostDevices)
      return file_.wrong(cpu, "more <cpu> than any machine has");
    WEFT_RETURN_IF_ERROR(check_host(cpu));
    if (!seen_.insert(node).second)
      return file_.wrong(cpu, fmt::format("numaid: there are two <cpu> of {}", node));
    WEFT_ASSIGN(const std::string kind, file_.text(cpu, "arch"));
    if (machine_.cpu.empty()) machine_.cpu = kind;
    PciPlace place;
    place.package = machine_.packages++;
    place.numa_node = node;
    WEFT_ASSIGN(std::vector<int> processors, processors_of(cpu));
    if (node != kUntoldNode)
      machine_.nodes.push_back({node, 0, 0, place.package, std::move(processors)});
    return add_below(cpu, place, 0);
  }

  // The kernel's mask: words of 32 bits in hexadecimal digits, the last has the lowest numbers.
  Result<std::vector<int>> processors_of(pugi::xml_node cpu) {
    WEFT_ASSIGN(const std::string mask, file_.text(cpu, "affinity"));
    std::vector<int> processors;
    std::string_view rest = mask;
    for (int base = 0; !rest.empty(); base += kMaskWord) {
      const std::size_t comma = rest.rfind(',');
      const std::size_t begin = comma == std::string_view::npos ? 0 : comma + 1;
      const std::optional<std::uint32_t> word = mask_word(rest.substr(begin));
      if (!word || comma == 0) {
        return file_.wrong(
            cpu, fmt::format("affinity: '{}' is no mask of processors (\"00000000,0000ffff\")",
                             std::string_view(mask).substr(0, 40)));
      }
      for (int bit = 0; bit < kMaskWord; ++bit)
        if ((*word >> bit & 1U) != 0) processors.push_back(base + bit);
      rest = rest.substr(0, begin == 0 ? 0 : comma);
    }
    return processors;
  }

  static std::optional<std::uint32_t> mask_word(std::string_view digits) {
    constexpr std::size_t kMostDigits = kMaskWord / 4;
    std::uint32_t word = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), word, 16);
    if (error != std::errc() || end != digits.data() + digits.size() || digits.size() > kMostDigits)
      return std::nullopt;
    return word;
  }

  // NCCL writes all hosts that NVLink connects into one file.
  Status check_host(pugi::xml_node cpu) {
    WEFT_ASSIGN(const std::string host, file_.text(cpu, "host_hash"));
    if (seen_.empty()) host_ = host;
    if (host == host_) return {};
    return file_.wrong(cpu,
                       fmt::format("host_hash: the file describes several hosts: {} here, {} "
                                   "before; keep the <cpu> of one",
                                   host.empty() ? "none" : host, host_.empty() ? "none" : host_));
  }

  // NCCL has no host bridges: a root port is what its <cpu> holds.
  Status add_below(pugi::xml_node parent, const PciPlace& place, int depth) {
    if (depth > kDeepest) return file_.wrong(parent, "nested too deep");
    for (const pugi::xml_node pci : parent.children("pci")) {
      WEFT_ASSIGN(const PciPlace here, place_of(pci, place));
      WEFT_RETURN_IF_ERROR(add_below(pci, here, depth + 1));
      for (const pugi::xml_node gpu : pci.children("gpu")) WEFT_RETURN_IF_ERROR(add_gpu(gpu, here));
      for (const pugi::xml_node nic : pci.children("nic"))
        WEFT_RETURN_IF_ERROR(add_nets(nic, here));
    }
    if (std::strcmp(parent.name(), "cpu") != 0) return {};
    for (const pugi::xml_node nic : parent.children("nic"))
      WEFT_RETURN_IF_ERROR(add_nets(nic, place));
    return {};
  }

  Result<PciPlace> place_of(pugi::xml_node pci, PciPlace above) {
    WEFT_ASSIGN(const std::string text, file_.text(pci, "busid"));
    if (text.empty()) return file_.wrong(pci, "<pci> needs busid");
    std::optional<std::string> address = pci_address(text);
    if (!address) {
      return file_.wrong(
          pci, fmt::format("busid: '{}' is no PCI address (\"0000:3b:00.0\")", text.substr(0, 40)));
    }
    WEFT_ASSIGN(const double rate, link_rate(pci));
    above.host_bridge = above.numa_node == kUntoldNode ? "of a node that is not told"
                                                       : fmt::format("node {}", above.numa_node);
    const std::string_view kind = pci.attribute("class").as_string();
    if (kind.starts_with(kBridgeClass) || pci.child("pci")) {
      above.bridges.push_back({*std::move(address), rate});
    } else {
      above.address = *std::move(address);
      above.gbyte_per_s = rate;
    }
    return above;
  }

  Status add_gpu(pugi::xml_node node, const PciPlace& place) {
    Gpu gpu;
    const int next = static_cast<int>(machine_.gpus.size());
    WEFT_ASSIGN(gpu.index, integer(node, "dev", 0, kMostIndex, next));
    if (std::ranges::count(machine_.gpus, gpu.index, &Gpu::index) != 0)
      return file_.wrong(node, fmt::format("dev: there are two <gpu> of {}", gpu.index));
    if (machine_.gpus.size() == kMostDevices)
      return file_.wrong(node, "more <gpu> than any machine has");
    gpu.place = place;
    WEFT_ASSIGN(const int capability, integer(node, "sm", 0, kMostIndex, 0));
    for (const pugi::xml_node link : node.children("nvlink"))
      WEFT_RETURN_IF_ERROR(add_link(link, gpu.index, capability));
    machine_.gpus.push_back(std::move(gpu));
    return {};
  }

  Status add_link(pugi::xml_node link, int gpu, int capability) {
    const double each = capability >= kBlackwell ? kNvlinkBlackwell
                        : capability >= kVolta   ? kNvlinkVolta
                                                 : kNvlinkPascal;
    const std::string_view kind = link.attribute("tclass").as_string();
    if (targets_.size() == kMostLinks)
      return file_.wrong(link, "more <nvlink> than any machine has");
    WEFT_ASSIGN(const int lanes, integer(link, "count", 1, kMostLanes, 1));
    // A switch that is not told has something else there, which is no GPU's.
    WEFT_ASSIGN(const std::string target, file_.text(link, "target"));
    targets_.push_back({gpu, pci_address(target).value_or(target), kind.starts_with(kSwitchClass),
                        lanes, lanes * each});
    return {};
  }

  // One per port, also where several share an RDMA device.
  Status add_nets(pugi::xml_node nic, const PciPlace& place) {
    for (const pugi::xml_node net : nic.children("net")) {
      Nic found;
      WEFT_ASSIGN(const std::string name, file_.text(net, "name"));
      if (name.empty()) return file_.wrong(net, "<net> needs a name");
      // Only RDMA devices have a GUID.
      const bool is_rdma = net.attribute("guid").as_ullong(0) != 0;
      (is_rdma ? found.rdma : found.netdev) = name;
      WEFT_ASSIGN(const int port, integer(net, "port", 0, kMostPort, 1));
      found.port = std::max(port, 1);
      WEFT_ASSIGN(const int rate, integer(net, "speed", 0, kMostMbit, 0));
      found.mbit_per_s = rate > 0 ? rate : -1;
      found.place = place;
      if (machine_.nics.size() == kMostDevices)
        return file_.wrong(net, "more <net> than any machine has");
      if (std::ranges::count(machine_.nics, found.name(), &Nic::name) != 0)
        return file_.wrong(net, fmt::format("name: there are two <net> called {}", found.name()));
      machine_.nics.push_back(std::move(found));
    }
    return {};
  }

  // "16.0 GT/s PCIe" and a width, or nothing.
  Result<double> link_rate(pugi::xml_node pci) {
    const std::string_view speed = pci.attribute("link_speed").as_string();
    double transfers = 0;
    std::from_chars(speed.data(), speed.data() + speed.size(), transfers);
    if (!(transfers >= 0 && transfers <= kMostTransfers))
      return file_.wrong(pci, fmt::format("link_speed: {} is not in [0, {}]", speed.substr(0, 24),
                                          kMostTransfers));
    WEFT_ASSIGN(const int lanes, integer(pci, "link_width", 0, kMostLanes, 0));
    const double code = transfers <= kOldCodeMost ? kOldCode : kNewCode;
    return transfers * code / 8 * lanes;
  }

  // Links to one and the same peer are one connection of several lanes, those to switches too.
  void resolve_links() {
    std::map<std::pair<int, int>, GpuLink> links;  // by GPU and peer
    for (const Target& target : targets_) {
      const auto peer = std::ranges::find(machine_.gpus, target.address,
                                          [](const Gpu& gpu) { return gpu.place.address; });
      if (!target.is_switch && peer == machine_.gpus.end()) continue;  // a CPU's own
      const int to = target.is_switch ? GpuLink::kSwitch : peer->index;
      GpuLink& link = links[{target.gpu, to}];
      link.gpu = target.gpu;
      link.peer = to;
      link.lanes += target.lanes;
      link.gbyte_per_s += target.gbyte_per_s;
    }
    for (const auto& [ends, link] : links) machine_.gpu_links.push_back(link);
  }

  const XmlFile& file_;
  Machine machine_;
  std::set<int> seen_;  // <cpu>, by numaid
  std::string host_;
  std::vector<Target> targets_;
};

}  // namespace

Result<Machine> read_nccl(const XmlFile& file) {
  return Reader(file).read();
}

}  // namespace weft::hardware
