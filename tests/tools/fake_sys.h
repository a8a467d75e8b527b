// A folder laid out like /sys and /dev, so that machines we do not have can be described.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "verbs/device/device.h"

namespace weft {

class FakeSys : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(sys_); }
  void TearDown() override { std::filesystem::remove_all(sys_); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((sys_ / path).parent_path());
    std::ofstream(sys_ / path) << text << "\n";
  }

  void link(const std::string& path, const std::string& target) const {
    std::filesystem::create_directories((sys_ / path).parent_path());
    std::filesystem::create_directories(sys_ / target);
    std::filesystem::create_directory_symlink(sys_ / target, sys_ / path);
  }

  void add_netdev(const std::string& name, const std::string& state = "up") const {
    const std::string netdev = "class/net/" + name + "/";
    write(netdev + "operstate", state);
    write(netdev + "mtu", "9000");
    if (state == "up") write(netdev + "carrier", "1");
  }

  // Without any GID; with the device file that a process needs.
  void add_port(const std::string& device, const std::string& state,
                const std::string& link_layer = "Ethernet", int port = 1) const {
    const std::string folder = port_folder(device, port);
    write(folder + "state", state);
    write(folder + "phys_state", "5: LinkUp");
    write(folder + "rate", "100 Gb/sec (4X EDR)");
    write(folder + "link_layer", link_layer);
    std::filesystem::create_directories(sys_ / folder / "gids");
    write("class/infiniband/" + device + "/node_type", "1: CA");
    write("class/infiniband_verbs/uverbs_" + device + "/ibdev", device);
    write("dev/infiniband/uverbs_" + device, "");
  }

  // Empty `type` or `netdev`: the kernel does not offer that file.
  void add_gid(const std::string& device, int index, const std::string& gid,
               const std::string& type, const std::string& netdev, int port = 1) const {
    const std::string folder = port_folder(device, port);
    const std::string name = std::to_string(index);
    write(folder + "gids/" + name, gid);
    if (!type.empty()) write(folder + "gid_attrs/types/" + name, type);
    if (!netdev.empty()) write(folder + "gid_attrs/ndevs/" + name, netdev);
  }

  void add_address(const std::string& netdev, const std::string& text) {
    const Result<GidAddress> parsed = parse_gid(text, GidKind::roce_v2);
    ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
    addresses_.push_back({netdev, parsed->bytes, parsed->prefix_bits});
  }

  [[nodiscard]] std::vector<RdmaPort> ports() const {
    return discover_rdma_ports({sys_, sys_ / "dev", addresses_});
  }

  static std::string port_folder(const std::string& device, int port) {
    return "class/infiniband/" + device + "/ports/" + std::to_string(port) + "/";
  }

  const std::filesystem::path sys_ =
      std::filesystem::path(testing::TempDir()) / ("weft-sys-" + std::to_string(getpid()));
  std::vector<InterfaceAddress> addresses_;
};

// How sysfs writes ::ffff:a.b.c.d, an address that the card made, and one that is not set.
inline const std::string kTenOne = "0000:0000:0000:0000:0000:ffff:0a00:0001";
inline const std::string kLinkLocal = "fe80:0000:0000:0000:0202:c9ff:fe00:0001";
inline const std::string kUnset = "0000:0000:0000:0000:0000:0000:0000:0000";

inline bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace weft
