// device: the network interfaces and RDMA ports of this machine, as values, each with whether it
// can carry traffic and why not. Read from /sys once per call; nothing is opened or kept, any
// thread may call.
#pragma once

#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct NetworkInterface {
  std::string name;
  std::string kind;     // "ethernet", "loopback", "infiniband", "virtual"
  std::string address;  // of the link layer
  int mtu = 0;
  int mbit_per_s = -1;  // -1: the driver does not say
  int numa_node = -1;   // -1: none
  bool usable = false;
  std::string reason;  // why, or why not
};

struct RdmaPort {
  std::string device;
  int port = 1;
  std::string link_layer;  // "InfiniBand", "Ethernet"
  std::string state;       // "ACTIVE", "DOWN", …
  std::string rate;        // "100 Gb/sec (4X EDR)"
  int gids = 0;            // addresses that are set
  int numa_node = -1;
  bool usable = false;
  std::string reason;
};

// By name. `sys`: where sysfs is mounted; tests give a folder of their own.
[[nodiscard]] std::vector<NetworkInterface> discover_interfaces(const std::string& sys = "/sys");
// By device, then port; empty when the kernel has no RDMA device.
[[nodiscard]] std::vector<RdmaPort> discover_rdma_ports(const std::string& sys = "/sys");

}  // namespace weft
