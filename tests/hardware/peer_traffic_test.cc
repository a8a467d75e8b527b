// Transfers between two PCI devices, by configurations as the kernel shows them.
#include <cstring>

#include "tests/tools/fake_sys.h"
#include "topology/hardware/hardware.h"

namespace weft {
namespace {

constexpr std::uint16_t kAcs = 0x000d, kAts = 0x000f;
constexpr unsigned kRedirects = 0x0c, kPassesTranslated = 0x40, kEnabled = 0x8000;

// A switch with a port above each of two devices; and a third device elsewhere.
class PeerTrafficTest : public FakeSys {
 protected:
  // A configuration with another capability in front, and this one behind it.
  void configure(const std::string& address, std::uint16_t capability, unsigned control,
                 std::size_t bytes = 4096) const {
    std::string space(bytes, '\0');
    const auto put = [&](std::size_t at, std::uint32_t number) {
      if (at + sizeof number <= bytes) std::memcpy(space.data() + at, &number, sizeof number);
    };
    put(0x100, 0x0001 | 1U << 16 | 0x148U << 20);  // error reporting
    put(0x148, capability | 1U << 16);
    put(0x148 + 4, control << 16);
    const std::filesystem::path folder = sys_ / ("bus/pci/devices/" + address);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config", std::ios::binary) << space;
  }
  void configure_all(unsigned acs, unsigned ats) const {
    for (const char* port : {"0000:01:00.0", "0000:02:00.0", "0000:02:01.0"})
      configure(port, kAcs, acs);
    for (const char* device : {"0000:03:00.0", "0000:04:00.0"}) configure(device, kAts, ats);
  }
  [[nodiscard]] std::string text() const { return describe(peer_traffic(gpu, nic, sys_)); }

  static PciPlace place(const char* address, std::vector<PciBridge> bridges) {
    PciPlace made;
    made.address = address;
    made.bridges = std::move(bridges);
    return made;
  }
  const PciPlace gpu = place("0000:03:00.0", {{"0000:01:00.0"}, {"0000:02:00.0"}});
  const PciPlace nic = place("0000:04:00.0", {{"0000:01:00.0"}, {"0000:02:01.0"}});
};

TEST_F(PeerTrafficTest, StaysBelowASwitchThatDoesNotRedirect) {
  configure_all(0, 0);
  EXPECT_EQ(text(), "what they exchange stays below their common bridge");
}

// The port above both is not passed.
TEST_F(PeerTrafficTest, AcsOfAPortOnTheWayIsNamed) {
  configure_all(0, 0);
  configure("0000:01:00.0", kAcs, kRedirects);
  EXPECT_EQ(text(), "what they exchange stays below their common bridge");
  configure("0000:02:01.0", kAcs, kRedirects);
  EXPECT_NE(
      text().find("ACS of 0000:02:01.0 sends what they exchange up to the root complex, which is "
                  "slow"),
      std::string::npos)
      << text();
}

TEST_F(PeerTrafficTest, AtsPassesAcsThatLetsItPass) {
  configure_all(kRedirects, kEnabled);
  EXPECT_NE(text().find("which is slow"), std::string::npos) << text();
  configure_all(kRedirects | kPassesTranslated, kEnabled);
  EXPECT_NE(text().find("both devices use it"), std::string::npos) << text();
}

TEST_F(PeerTrafficTest, WhatOnlyRootMayReadIsUnknown) {
  for (const char* port : {"0000:01:00.0", "0000:02:00.0", "0000:02:01.0"})
    configure(port, kAcs, kRedirects, 64);
  EXPECT_NE(text().find("is unknown: only root may read the configuration of 0000:02:00.0, "
                        "0000:02:01.0"),
            std::string::npos)
      << text();
  std::filesystem::remove_all(sys_ / "bus");
  EXPECT_NE(text().find("is unknown"), std::string::npos) << text();
}

TEST_F(PeerTrafficTest, AnIommuThatTranslatesIsTold) {
  configure_all(0, 0);
  write("bus/pci/devices/0000:04:00.0/iommu_group/type", "DMA-FQ");
  EXPECT_NE(text().find("iommu=pt"), std::string::npos) << text();
  write("bus/pci/devices/0000:04:00.0/iommu_group/type", "identity");
  EXPECT_EQ(text(), "what they exchange stays below their common bridge");
}

TEST_F(PeerTrafficTest, WithoutABridgeInCommonTheRootComplexIsOnTheWay) {
  const PciPlace other = place("0000:05:00.0", {{"0000:81:00.0"}});
  EXPECT_NE(describe(peer_traffic(gpu, other, sys_)).find("no bridge in common"),
            std::string::npos);
}

// Broken lists end.
TEST_F(PeerTrafficTest, AListOfCapabilitiesThatDoesNotEndIsNone) {
  configure_all(0, 0);
  configure("0000:02:00.0", 0x0001, 0);
  std::fstream file(sys_ / "bus/pci/devices/0000:02:00.0/config",
                    std::ios::binary | std::ios::in | std::ios::out);
  const std::uint32_t loop = 0x0001 | 1U << 16 | 0x100U << 20;
  file.seekp(0x100);
  file.write(reinterpret_cast<const char*>(&loop), sizeof loop);
  file.close();
  EXPECT_EQ(text(), "what they exchange stays below their common bridge");
}

}  // namespace
}  // namespace weft
