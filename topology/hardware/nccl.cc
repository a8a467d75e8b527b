// Topology files of NCCL (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): <system> has <cpu numaid=…> with
// nested <pci busid=… link_speed="16 GT/s" link_width="16">, in which <gpu dev=…> has <nvlink
// target=… count=…>, and <nic> has <net name=… speed=…>. RCCL's files are the same with <xgmi>. Files
// that clouds ship have neither <gpu> nor <nic>: there a <pci> without anything in it is what its
// class says.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <set>
#include <utility>

#include "topology/hardware/files.h"
#include "topology/hardware/nccl_links.h"
#include "topology/hardware/pci_class.h"

namespace weft::hardware {
namespace {

// As deep as NCCL's own parser goes, and more than any machine.
constexpr int kDeepest = 32;
constexpr int kMostIndex = 65'535;
constexpr int kUnknownNode = -1;  // as in virtual machines
constexpr int kNoNode = -2;
constexpr int kMostLanes = 1024;
constexpr int kMaskWord = 32;  // bits
constexpr std::size_t kMostOthers = 16, kLongestName = 32;
constexpr int kMostPort = 255;
constexpr int kMostMbit = 100'000'000;   // 100 Tbit/s
constexpr double kMostTransfers = 1024;  // GT/s: four generations ahead
// One lane, one way, in gigabytes per second, after the line's code.
constexpr double kOldCode = 8.0 / 10;     // up to 5 GT/s
constexpr double kNewCode = 128.0 / 130;  // from 8 GT/s
constexpr double kOldCodeMost = 5.0;
// The class of a bridge, as sysfs writes it.
constexpr std::string_view kBridgeClass = "0x0604";

class Reader {
 public:
  explicit Reader(const XmlFile& file) : file_(file), links_(file) {}

  Result<Machine> read() {
    note_others(file_.root(), {"cpu"});
    for (const pugi::xml_node cpu : file_.root().children("cpu"))
      WEFT_RETURN_IF_ERROR(add_cpu(cpu));
    if (seen_.empty()) return file_.wrong(file_.root(), "<system> has no <cpu>");
    // Where devices are known by their class alone, the file has no links either.
    machine_.are_gpu_links_known = unnumbered_.empty();
    number_gpus();
    links_.resolve(machine_, left_out_);
    for (const std::string& name : others_)
      left_out_.add("an element that Weft does not read", fmt::format("<{}>", name));
    machine_.left_out = left_out_.phrases();
    return std::move(machine_);
  }

 private:
  Result<int> integer(pugi::xml_node node, const char* key, int least, int most, int otherwise) {
    WEFT_ASSIGN(const std::int64_t number, file_.integer(node, key, least, most, otherwise));
    return static_cast<int>(number);
  }

  Status add_cpu(pugi::xml_node cpu) {
    WEFT_ASSIGN(const int node, integer(cpu, "numaid", kUnknownNode, kMostIndex, kNoNode));
    if (node == kNoNode) return file_.wrong(cpu, "<cpu> needs numaid");
    if (machine_.nodes.size() == kMostDevices)
      return file_.wrong(cpu, "more <cpu> than any machine has");
    WEFT_RETURN_IF_ERROR(check_host(cpu));
    if (!seen_.insert(node).second)
      return file_.wrong(cpu, fmt::format("numaid: there are two <cpu> of {}", node));
    WEFT_ASSIGN(const std::string kind, file_.text(cpu, "arch"));
    if (machine_.cpu.empty()) machine_.cpu = kind;
    note_others(cpu, {"pci", "nic"});
    is_first_ = seen_.size() == 1;
    PciPlace place;
    place.package = machine_.packages++;
    place.numa_node = node;
    WEFT_ASSIGN(std::vector<int> processors, processors_of(cpu));
    if (node != kUnknownNode)
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

  // NCCL has no host bridges: a root port is what its <cpu> holds. An interface that NCCL does not find
  // on PCI is put below the first <cpu>, wherever it is.
  Status add_below(pugi::xml_node parent, const PciPlace& place, int depth) {
    if (depth > kDeepest) return file_.wrong(parent, "nested too deep");
    for (const pugi::xml_node pci : parent.children("pci")) {
      WEFT_ASSIGN(const PciPlace here, place_of(pci, place));
      WEFT_RETURN_IF_ERROR(add_below(pci, here, depth + 1));
      WEFT_RETURN_IF_ERROR(add_devices(pci, here));
    }
    if (std::strcmp(parent.name(), "cpu") != 0) return {};
    PciPlace off_pci = place;
    off_pci.is_node_assumed = is_first_ && place.numa_node != kUnknownNode;
    for (const pugi::xml_node nic : parent.children("nic"))
      WEFT_RETURN_IF_ERROR(add_nets(nic, off_pci));
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
    const double rate = link_rate(pci, *address);
    above.host_bridge = above.numa_node == kUnknownNode ? "of an unknown node"
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

  // What the function of a card is: what the file says of it, or else what its class says.
  Status add_devices(pugi::xml_node pci, const PciPlace& place) {
    note_others(pci, {"pci", "gpu", "nic"});
    for (const pugi::xml_node gpu : pci.children("gpu")) WEFT_RETURN_IF_ERROR(add_gpu(gpu, place));
    for (const pugi::xml_node nic : pci.children("nic")) WEFT_RETURN_IF_ERROR(add_nets(nic, place));
    const bool is_described = pci.child("gpu") || pci.child("nic").child("net");
    return is_described || pci.child("pci") ? Status() : add_by_class(pci, place);
  }

  Status add_by_class(pugi::xml_node pci, const PciPlace& place) {
    const std::optional<unsigned> kind = class_in(pci.attribute("class").as_string());
    if (!kind) {
      left_out_.add("a PCI device of unknown class", place.address);
      return {};
    }
    const PciIdentity identity{*kind, id_in(pci.attribute("vendor").as_string()),
                               id_in(pci.attribute("device").as_string()), place.gbyte_per_s};
    switch (kind_of(identity)) {
      case PciKind::accelerator:
        unnumbered_.push_back(place);
        break;
      case PciKind::ethernet:
        return add_unnamed(pci, place, is_efa(identity));
      case PciKind::infiniband:
        return add_unnamed(pci, place, true);
      case PciKind::display:
        left_out_.add("a display of the server's own, no accelerator", place.address);
        break;
      case PciKind::bridge:
        break;
      case PciKind::other:
        left_out_.add("neither an accelerator nor a network interface",
                      fmt::format("{} of class 0x{:04x}", place.address, *kind));
    }
    return {};
  }

  // An interface goes by its PCI address where the file has no name for it.
  Status add_unnamed(pugi::xml_node pci, const PciPlace& place, bool is_rdma) {
    Nic nic;
    (is_rdma ? nic.rdma : nic.netdev) = place.address;
    nic.place = place;
    return add_nic(pci, std::move(nic), "busid: there are two interfaces at");
  }

  // The driver numbers GPUs by their PCI addresses. The numbers that <gpu> has are taken.
  void number_gpus() {
    std::ranges::sort(unnumbered_, {}, &PciPlace::address);
    int next = 0;
    for (PciPlace& place : unnumbered_) {
      while (has_gpu(next)) ++next;
      Gpu gpu;
      gpu.index = next++;
      gpu.place = std::move(place);
      machine_.gpus.push_back(std::move(gpu));
    }
  }

  [[nodiscard]] bool has_gpu(int index) const {
    return std::ranges::count(machine_.gpus, index, &Gpu::index) != 0;
  }

  Status add_gpu(pugi::xml_node node, const PciPlace& place) {
    Gpu gpu;
    const int next = static_cast<int>(machine_.gpus.size());
    WEFT_ASSIGN(gpu.index, integer(node, "dev", 0, kMostIndex, next));
    if (has_gpu(gpu.index))
      return file_.wrong(node, fmt::format("dev: there are two <gpu> of {}", gpu.index));
    if (machine_.gpus.size() == kMostDevices)
      return file_.wrong(node, "more <gpu> than any machine has");
    note_others(node, {"nvlink", "xgmi"});
    gpu.place = place;
    WEFT_RETURN_IF_ERROR(links_.add(node, gpu.index, place.address));
    machine_.gpus.push_back(std::move(gpu));
    return {};
  }

  // One per port, also where several share an RDMA device.
  Status add_nets(pugi::xml_node nic, const PciPlace& place) {
    note_others(nic, {"net"});
    if (!nic.child("net"))
      left_out_.add("a <nic> without <net>", place.address.empty() ? "<cpu>" : place.address);
    for (const pugi::xml_node net : nic.children("net")) {
      Nic found;
      WEFT_ASSIGN(const std::string name, file_.text(net, "name"));
      if (name.empty()) return file_.wrong(net, "<net> needs a name");
      // Sockets have port 0. A GUID says nothing: NCCL's plugins number their devices with it.
      WEFT_ASSIGN(const int port, integer(net, "port", 0, kMostPort, 0));
      WEFT_ASSIGN(const int has_gpudirect, integer(net, "gdr", 0, 1, 0));
      (port > 0 || has_gpudirect != 0 ? found.rdma : found.netdev) = name;
      found.port = std::max(port, 1);
      const int rate = possible(net, "speed", kMostMbit, name);
      found.mbit_per_s = rate > 0 ? rate : -1;
      found.place = place;
      WEFT_RETURN_IF_ERROR(add_nic(net, std::move(found), "name: there are two <net> called"));
    }
    return {};
  }

  // `twice` is the complaint about an interface whose name another one has.
  Status add_nic(pugi::xml_node node, Nic nic, std::string_view twice) {
    if (machine_.nics.size() == kMostDevices)
      return file_.wrong(node, "more <net> than any machine has");
    if (std::ranges::count(machine_.nics, nic.name(), &Nic::name) != 0)
      return file_.wrong(node, fmt::format("{} {}", twice, nic.name()));
    machine_.nics.push_back(std::move(nic));
    return {};
  }

  // Elements that have no meaning here, once each.
  void note_others(pugi::xml_node parent, std::initializer_list<std::string_view> known) {
    for (const pugi::xml_node child : parent.children()) {
      const std::string_view name = child.name();
      if (child.type() == pugi::node_element && std::ranges::count(known, name) == 0 &&
          others_.size() < kMostOthers)
        others_.emplace(name.substr(0, kLongestName));
    }
  }

  // A number of which a rate is made; 0: not told, or no number that it can have. RCCL, for example,
  // writes `speed="200000000"`.
  int possible(pugi::xml_node node, const char* key, int most, const std::string& of) {
    const Result<int> number = integer(node, key, 0, most, 0);
    if (number.ok()) return *number;
    note_impossible(node, key, of);
    return 0;
  }

  void note_impossible(pugi::xml_node node, const char* key, const std::string& of) {
    const std::string_view value = node.attribute(key).value();
    left_out_.add("a rate that is not possible",
                  fmt::format("{}=\"{}\" of {}", key, value.substr(0, 24), of));
  }

  // "16.0 GT/s PCIe" and a width; 0: one is not told.
  double link_rate(pugi::xml_node pci, const std::string& address) {
    const std::string_view speed = pci.attribute("link_speed").as_string();
    double transfers = 0;
    std::from_chars(speed.data(), speed.data() + speed.size(), transfers);
    if (!(transfers >= 0 && transfers <= kMostTransfers)) {
      note_impossible(pci, "link_speed", address);
      return 0;
    }
    const int lanes = possible(pci, "link_width", kMostLanes, address);
    const double code = transfers <= kOldCodeMost ? kOldCode : kNewCode;
    return transfers * code / 8 * lanes;
  }

  const XmlFile& file_;
  Machine machine_;
  std::set<int> seen_;  // <cpu>, by numaid
  std::string host_;
  bool is_first_ = false;             // of the <cpu> that is being read
  std::vector<PciPlace> unnumbered_;  // GPUs that only their class tells
  NcclLinks links_;
  LeftOut left_out_;
  std::set<std::string> others_;  // names of elements that are not read
};

}  // namespace

Result<Machine> read_nccl(const XmlFile& file) {
  return Reader(file).read();
}

}  // namespace weft::hardware
