// Hosts that we do not have, as folders laid out like their root: two sockets, on each an RDMA card and a
// GPU of NVIDIA's below one PCI switch, as clean as can be. Tests spoil what they want.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tools/diagnosis/diagnosis.h"

namespace weft {

class FakeHost {
 public:
  // `number` gives its addresses: 10.0.0.NUMBER and so on.
  FakeHost(const std::filesystem::path& root, int number);

  void write(const std::string& path, const std::string& text) const;
  // Into a file that is there.
  void set(const std::string& path, const std::string& text) const {
    ASSERT_TRUE(std::filesystem::exists(root_ / path)) << path;
    write(path, text);
  }
  void remove(const std::string& path) const { std::filesystem::remove_all(root_ / path); }
  // Of the configuration of a PCI device.
  void set_byte(const std::string& address, std::size_t at, char value) const;
  // The folder of a device, below /sys.
  [[nodiscard]] std::string device(const std::string& address) const {
    return "sys/bus/pci/devices/" + address + '/';
  }
  [[nodiscard]] std::string port(int card) const {
    return "sys/class/infiniband/mlx5_" + std::to_string(card) + "/ports/1/";
  }
  [[nodiscard]] std::string netdev(int card) const {
    return "sys/class/net/eth" + std::to_string(card) + '/';
  }
  // Gives the interface of a card an address of the network 10.NET.0.0/16, in its port's table too.
  void give_address(int card, int net, int number) const;
  void write_routes() const;

  [[nodiscard]] HostFacts facts() const { return read_facts({root_.string(), 0}); }
  [[nodiscard]] const std::filesystem::path& root() const { return root_; }

 private:
  struct Address {
    int card, net, number;
  };
  void add_card(int card, const std::string& bus) const;
  void add_device(const std::string& above, const std::string& address, int node, double gt,
                  int lanes) const;

  std::filesystem::path root_;
  mutable std::vector<Address> addresses_;
};

// A folder for hosts, gone with it.
class FakeFolder {
 public:
  FakeFolder();
  ~FakeFolder() { std::filesystem::remove_all(path_); }
  FakeFolder(const FakeFolder&) = delete;
  FakeFolder& operator=(const FakeFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// With what only system calls and a job tell of a clean host.
[[nodiscard]] HostFacts with_answers(HostFacts facts);
// Three clean hosts: node0, node1, node2. Read once.
[[nodiscard]] const std::vector<HostFacts>& clean_hosts();

// PCI addresses of a FakeHost, by socket.
inline const std::vector<std::string> kRootPort{"0000:3a:00.0", "0000:ba:00.0"};
inline const std::vector<std::string> kSwitchPort{"0000:3c:00.0", "0000:bc:00.0"};
inline const std::vector<std::string> kCard{"0000:3d:00.0", "0000:bd:00.0"};
inline const std::vector<std::string> kGpu{"0000:3e:00.0", "0000:be:00.0"};

}  // namespace weft
