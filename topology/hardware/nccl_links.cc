// NVLink and xGMI in topology files of NCCL and RCCL.
#include "topology/hardware/nccl_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

#include "topology/hardware/files.h"

namespace weft::hardware {
namespace {

constexpr std::size_t kMostLinks = 1 << 16;
constexpr int kMostLanes = 1024;
constexpr int kMostCapability = 65'535;
// Gigabytes per second of one link, one way. NVLink goes by the compute capability.
constexpr int kBlackwell = 100, kVolta = 70;
constexpr double kNvlinkBlackwell = 50.0, kNvlinkVolta = 25.0, kNvlinkPascal = 20.0;
// xGMI goes by the architecture, of which these are the beginnings.
struct Xgmi {
  std::string_view architecture;
  double gbyte_per_s;
};
constexpr std::array kXgmi{Xgmi{"906", 46.0}, Xgmi{"908", 46.0}, Xgmi{"90a", 50.0},
                           Xgmi{"910", 50.0}, Xgmi{"94", 64.0},  Xgmi{"950", 76.8}};
// Classes of a target, as sysfs writes them. The second is a link of POWER's processors.
constexpr std::string_view kSwitchClass = "0x0680", kProcessorClass = "0x068001";

double nvlink_rate(int capability) {
  if (capability >= kBlackwell) return kNvlinkBlackwell;
  return capability >= kVolta ? kNvlinkVolta : kNvlinkPascal;
}

// "908", "gfx90a:sramecc+"; 0 where it is unknown.
double xgmi_rate(std::string_view architecture) {
  constexpr std::string_view kPrefix = "gfx";
  if (architecture.starts_with(kPrefix)) architecture.remove_prefix(kPrefix.size());
  const auto found = std::ranges::find_if(kXgmi, [architecture](const Xgmi& each) {
    return architecture.starts_with(each.architecture);
  });
  return found == kXgmi.end() ? 0 : found->gbyte_per_s;
}

}  // namespace

Status NcclLinks::add(pugi::xml_node gpu, int index, const std::string& address) {
  WEFT_ASSIGN(const std::int64_t capability, file_.integer(gpu, "sm", 0, kMostCapability, 0));
  WEFT_ASSIGN(const std::string architecture, file_.text(gpu, "gcn"));
  const Link from{index, address, {}, false, {}, 0, 0};
  for (const pugi::xml_node node : gpu.children("nvlink")) {
    WEFT_RETURN_IF_ERROR(
        add_link(node, GpuLinkKind::nvlink, nvlink_rate(static_cast<int>(capability)), from));
  }
  for (const pugi::xml_node node : gpu.children("xgmi"))
    WEFT_RETURN_IF_ERROR(add_link(node, GpuLinkKind::xgmi, xgmi_rate(architecture), from));
  return {};
}

// A target that is no address is kept as it is: NCCL writes something else for some switches.
Status NcclLinks::add_link(pugi::xml_node node, GpuLinkKind kind, double each, Link link) {
  if (links_.size() == kMostLinks)
    return file_.wrong(node, fmt::format("more <{}> than any machine has", node.name()));
  WEFT_ASSIGN(const std::int64_t lanes, file_.integer(node, "count", 1, kMostLanes, 1));
  WEFT_ASSIGN(const std::string target, file_.text(node, "target"));
  const std::string_view target_class = node.attribute("tclass").as_string();
  link.to = pci_address(target).value_or(target);
  link.is_switch =
      target_class.starts_with(kSwitchClass) && !target_class.starts_with(kProcessorClass);
  link.kind = kind;
  link.lanes = static_cast<int>(lanes);
  link.gbyte_per_s = link.lanes * each;
  links_.push_back(std::move(link));
  return {};
}

// Links to one and the same peer are one connection of several lanes, and so are those to switches.
void NcclLinks::resolve(Machine& machine, LeftOut& left_out) const {
  std::map<std::pair<int, int>, GpuLink> found;  // by GPU and peer
  for (const Link& link : links_) {
    const auto thing = [&link] { return fmt::format("GPU {} to {}", link.gpu, link.to); };
    if (!link.to.empty() && link.to == link.from) {
      left_out.add("a link from a GPU to itself", thing());
      continue;
    }
    const auto peer =
        std::ranges::find(machine.gpus, link.to, [](const Gpu& gpu) { return gpu.place.address; });
    if (!link.is_switch && peer == machine.gpus.end()) {
      left_out.add("a link whose other end is neither a GPU of the file nor a switch", thing());
      continue;
    }
    const int to = link.is_switch ? GpuLink::kSwitch : peer->index;
    GpuLink& whole = found[{link.gpu, to}];
    whole.gpu = link.gpu;
    whole.peer = to;
    whole.kind = link.kind;
    whole.lanes += link.lanes;
    whole.gbyte_per_s += link.gbyte_per_s;
  }
  for (const auto& [ends, link] : found) machine.gpu_links.push_back(link);
}

}  // namespace weft::hardware
