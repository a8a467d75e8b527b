// What the configuration of PCI says about transfers from device to device. A capability of PCI Express
// is found by its number in the configuration beyond the first 256 bytes, which only root may read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "topology/hardware/hardware.h"

namespace weft {
namespace {

// The PCI Express Base Specification, "Extended Capabilities".
constexpr std::uint16_t kAccessControl = 0x000d, kAddressTranslation = 0x000f;
constexpr std::size_t kFirst = 0x100, kControl = 6, kSpace = 4096;
// Bits of the control registers.
constexpr unsigned kRedirectsRequests = 1U << 2, kRedirectsCompletions = 1U << 3;
constexpr unsigned kPassesTranslated = 1U << 6, kTranslates = 1U << 15;

class Configuration {
 public:
  Configuration(const std::string& sys, const std::string& address) {
    std::ifstream file(sys + "/bus/pci/devices/" + address + "/config", std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }
  // Whether this process may read the part with the capabilities.
  [[nodiscard]] bool is_readable() const { return bytes_.size() >= kSpace; }
  // The control register of a capability; 0: the device has none.
  [[nodiscard]] unsigned control_of(std::uint16_t capability) const {
    constexpr std::size_t kMost = (kSpace - kFirst) / 8;  // a list that does not end is none
    std::size_t at = kFirst;
    for (std::size_t seen = 0; seen < kMost && at >= kFirst && at + 8 <= bytes_.size(); ++seen) {
      const std::uint32_t head = number<std::uint32_t>(at);
      if ((head & 0xffff) == capability) return number<std::uint16_t>(at + kControl);
      at = head >> 20 & ~std::size_t{3};
    }
    return 0;
  }

 private:
  template <typename Number>
  [[nodiscard]] Number number(std::size_t at) const {
    Number found{};
    std::memcpy(&found, bytes_.data() + at, sizeof found);
    return found;
  }
  std::string bytes_;
};

std::string iommu_of(const std::string& sys, const std::string& address) {
  std::ifstream file(sys + "/bus/pci/devices/" + address + "/iommu_group/type");
  std::string type;
  file >> type;
  return type;
}

}  // namespace

// Bridges that both have above them see nothing of it.
PeerTraffic peer_traffic(const PciPlace& from, const PciPlace& to, const std::string& sys) {
  PeerTraffic found;
  const auto [first, second] =
      std::ranges::mismatch(from.bridges, to.bridges, {}, &PciBridge::address, &PciBridge::address);
  std::vector<std::string> bridges;
  for (auto bridge = first; bridge != from.bridges.end(); ++bridge)
    bridges.push_back(bridge->address);
  for (auto bridge = second; bridge != to.bridges.end(); ++bridge)
    bridges.push_back(bridge->address);
  found.has_common_bridge = first != from.bridges.begin();
  for (const std::string& bridge : bridges) {
    const Configuration configuration(sys, bridge);
    const unsigned control = configuration.control_of(kAccessControl);
    if (!configuration.is_readable()) found.unreadable.push_back(bridge);
    if ((control & (kRedirectsRequests | kRedirectsCompletions)) == 0) continue;
    found.redirecting.push_back(bridge);
    found.passes_translated = found.passes_translated || (control & kPassesTranslated) != 0;
  }
  found.translates = std::ranges::all_of(std::array{&from, &to}, [&](const PciPlace* device) {
    return (Configuration(sys, device->address).control_of(kAddressTranslation) & kTranslates) != 0;
  });
  for (const PciPlace* device : {&from, &to})
    if (iommu_of(sys, device->address).starts_with("DMA")) found.is_behind_iommu = true;
  return found;
}

std::string describe(const PeerTraffic& traffic) {
  if (!traffic.has_common_bridge)
    return "no bridge in common: what they exchange passes the root complex";
  const std::string unreadable =
      traffic.unreadable.empty()
          ? ""
          : fmt::format("; unknown of {}, whose configuration only root may read",
                        fmt::join(traffic.unreadable, ", "));
  if (!traffic.redirecting.empty()) {
    const std::string redirected =
        fmt::format("ACS of {} sends what they exchange up to the root complex",
                    fmt::join(traffic.redirecting, ", "));
    if (traffic.translates && traffic.passes_translated)
      return redirected + ", but for what ATS has translated: both devices use it" + unreadable;
    return redirected +
           fmt::format(", which is slow (the kernel's pci=disable_acs_redir={} ends it)",
                       fmt::join(traffic.redirecting, ";")) +
           unreadable;
  }
  if (!traffic.unreadable.empty())
    return fmt::format(
        "whether ACS sends what they exchange up to the root complex is unknown: only "
        "root may read the configuration of {}",
        fmt::join(traffic.unreadable, ", "));
  if (traffic.is_behind_iommu && !traffic.translates) {
    return "the IOMMU translates what they exchange, at the root complex (the kernel's iommu=pt, "
           "or ATS, "
           "ends it)";
  }
  return "what they exchange stays below their common bridge";
}

}  // namespace weft
