// device: the network interfaces and RDMA ports of this machine, as values, each with whether it
// can carry traffic and why not. Read from /sys once per call; nothing is opened or kept, no verbs
// library is needed, any thread may call.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"
#include "verbs/device/gid.h"

namespace weft {

struct NetworkInterface {
  std::string name;
  std::string kind;  // "ethernet", "infiniband": a card; "loopback", "bridge"; "bond", "vlan" and
                     // other words of the kernel's, "tun", "veth", "dummy", else "virtual"
  std::string address;  // of the link layer
  std::string ip;       // first IPv4 address, else first IPv6 one that is not link-local, with its
                        // prefix: "10.0.0.1/24", "fd09::1/64"; empty: none
  std::string network;  // of that address: "10.0.0.0/24", "fd09::/64"
  std::string state;    // "up", "down", "unknown", …
  std::string pci;      // "0000:3b:00.0"; empty: not on PCI
  int mtu = 0;
  int mbit_per_s = -1;               // -1: the driver does not say
  int numa_node = -1;                // -1: none
  std::string bond;                  // the bonded interface that it is a part of; empty: none
  bool is_virtual_function = false;  // of a card that is shared by SR-IOV
  std::string physical_function;     // whose it is: "0000:3b:00.0"; empty: its own, or not told
  bool usable = false;               // by TCP, towards other machines
  std::string reason;                // why, or why not

  // Not made up by the kernel.
  [[nodiscard]] bool is_card() const { return kind == "ethernet" || kind == "infiniband"; }
};

struct RdmaPort {
  std::string device;
  int port = 1;
  std::string link_layer;     // "InfiniBand", "Ethernet"
  std::string state;          // "ACTIVE", "DOWN", …
  std::string phys_state;     // "LinkUp", "Polling", …
  std::string rate;           // "100 Gb/sec (4X EDR)"
  int mbit_per_s = -1;        // of that; -1: not told
  std::vector<RdmaGid> gids;  // addresses that are set, by index
  std::string netdev;         // its network interface; empty: none, or not told
  int mtu = 0;                // of that, which bounds RDMA's own; 0: none
  int packet_bytes = 0;       // RDMA's own MTU: a power of two, 4096 at most; 0: no driver told
  int lid = -1;               // InfiniBand: its address within the subnet; -1: none
  int sm_lid = -1;            // InfiniBand: that of the subnet manager
  std::string node_guid;      // "9803:9b03:00ab:cdef"
  std::string driver;         // "mlx5_core"; empty: not told, as by virtual devices
  std::string pci;            // "0000:3b:00.0"; empty: not on PCI
  int numa_node = -1;
  bool is_virtual_function = false;  // of a card that is shared by SR-IOV
  std::string physical_function;     // whose it is: "0000:3b:00.0"; empty: its own, or not told
  bool is_bonded = false;            // its network interface is a bond, or a part of one
  bool usable = false;
  bool lacks_carrier = false;  // RoCE: not usable, and only because a cable is out
  std::string reason;

  [[nodiscard]] bool operator==(const RdmaPort&) const = default;
};

// An IP address of a network interface, IPv4 as a mapped one.
struct InterfaceAddress {
  std::string netdev;
  GidBytes bytes{};
  int prefix_bits = 0;  // of 32 for IPv4, else of 128
};

// Those of this machine, in this process's network namespace.
[[nodiscard]] std::vector<InterfaceAddress> interface_addresses();

// What a driver says of a port, or why it cannot be asked: then it cannot be used either.
struct RdmaAnswers {
  std::vector<RdmaGid> gids;
  int packet_bytes = 0;
  std::string fault;
};

// Where RDMA ports are looked for; tests give folders of their own.
struct RdmaSources {
  std::string sys = "/sys";
  std::string dev = "/dev";
  std::vector<InterfaceAddress> addresses;  // empty: not known, and nothing is concluded from it
  // Who else knows a port: a driver lists its addresses at one question, where sysfs has three
  // small files for each of a thousand places, and its packets' size, which sysfs lacks. Nothing: it
  // could not.
  std::function<RdmaAnswers(const std::string& device, int port)> driver = nullptr;
};

// Whether an interface carries traffic at this moment; one system call. `unavailable` says why not.
[[nodiscard]] Status carrier(const std::string& interface);

// The order in which people list names: digits are one number, so that mlx5_2 comes before mlx5_10. A
// strict weak order; equal numbers that are written differently ("01", "1") count as text.
[[nodiscard]] bool is_listed_before(std::string_view a, std::string_view b);
// Cores or NUMA nodes as the kernel lists them: of "0-3,8" 0, 1, 2, 3, 8. Upwards; it ends at the first mistake, and
// at 8192, which is as far as Linux counts.
[[nodiscard]] std::vector<int> number_list(std::string_view text);

// By name, in that order. `sys`: where sysfs is mounted; tests give a folder of their own, and addresses. Empty
// addresses: not known, and nothing is concluded from it.
[[nodiscard]] std::vector<NetworkInterface> discover_interfaces(
    const std::string& sys = "/sys",
    const std::vector<InterfaceAddress>& addresses = interface_addresses());

// What it means that there is none, or none that can be used.
[[nodiscard]] std::string why_no_interfaces(const std::string& sys = "/sys");

// Why sysfs does not tell what it should have in a folder ("class/net"), in which it always has
// something: it is not mounted, the folder is not there or empty, or what is in it leads nowhere, as
// where a container covers parts of it. Empty: it tells.
[[nodiscard]] std::string why_unreadable(const std::string& folder,
                                         const std::string& sys = "/sys");

// A GID of which index, bytes, kind and netdev are known, with the rest: its address on that
// interface, and whether it can be used.
[[nodiscard]] RdmaGid judged(RdmaGid gid, const RdmaSources& from);

// By device, in the order of names, then port; empty when the kernel has no RDMA device. Some hundred small reads
// for a port whose address table has 256 places: setup, not data path.
[[nodiscard]] std::vector<RdmaPort> discover_rdma_ports();
[[nodiscard]] std::vector<RdmaPort> discover_rdma_ports(const RdmaSources& from);
// The same but for what their addresses tell: gids is empty, usable is false, and there is no
// reason. A few reads for each port.
[[nodiscard]] std::vector<RdmaPort> list_rdma_ports(const std::string& sys = "/sys");
// What ports that reach each other call the network that they are on: the subnet of one of a RoCE
// port's addresses (IPv4 before IPv6, then by its text), the subnet prefix of an InfiniBand one.
// Empty: not told.
[[nodiscard]] std::string network_of(const RdmaPort& port);
// What it means that there is none, and how to get one.
[[nodiscard]] std::string why_no_rdma(const RdmaSources& from = {});

}  // namespace weft
