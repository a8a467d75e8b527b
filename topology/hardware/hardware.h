// hardware: what a machine is made of, as values: processors, caches, memory, network interfaces,
// GPUs, and where they sit on PCI. Read from this machine once, or from a file that describes
// another one, so that a laptop can plan for any cluster; nothing is kept open, and any thread may
// call.
//
//   source                            what it has
//   this machine                      hwloc, /proc, /sys, and NVML where it is there; without
//                                     hwloc all but its caches
//   an hwloc XML file (lstopo, ours)  all but the rates of network interfaces, unless we wrote it
//   an hwloc synthetic string         packages, nodes, caches and cores: no device
//   a topology file of NCCL or RCCL   sockets, PCI, network interfaces with rates, GPUs, and the
//                                     links between them (NVLink, xGMI)
//   what `nvidia-smi topo -m` prints  how near GPUs and RDMA ports are, NVLinks, and nodes
//
// What a source does not say is -1, 0 or empty, and unknown_in() has a sentence for it;
// correct_machine() fills it in from a small file of the user's. What a file says and Weft does not
// take is in Machine::left_out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct CacheLevel {
  int level = 1;
  std::uint64_t bytes = 0;  // of one
  int count = 0;            // how many the machine has; instruction caches are left out
  int cores_each = 0;       // that share one

  [[nodiscard]] bool operator==(const CacheLevel&) const = default;
};

struct NumaNode {
  int index = 0;
  std::uint64_t bytes = 0;
  int cores = 0;     // a node may be memory only: of a GPU, or a memory expander
  int package = -1;  // -1: of no single one, or unknown
  // The hardware threads of its cores by the kernel's numbers, upwards; empty: none, or unknown.
  std::vector<int> processors{};

  [[nodiscard]] bool operator==(const NumaNode&) const = default;
};

struct HugePageState {
  std::uint64_t page_bytes = 0;  // of hugetlbfs's default size
  int reserved = 0;
  int free = 0;
  std::string anonymous;  // transparent: always, madvise, never; empty where the kernel has none
  std::string shared;     // the same for shared memory: also within_size, advise, deny, force

  [[nodiscard]] bool operator==(const HugePageState&) const = default;
};

// A PCI bridge on the way from a processor to a device: a root port, or a port of a switch.
struct PciBridge {
  std::string address;     // "0000:17:00.0"
  double gbyte_per_s = 0;  // of the link above it; 0: unknown

  [[nodiscard]] bool operator==(const PciBridge&) const = default;
};

// Where a device sits.
struct PciPlace {
  std::string address;             // "0000:3b:00.0"; empty: not on PCI
  double gbyte_per_s = 0;          // of its own link; 0: unknown
  std::string host_bridge;         // "0000:3a": domain and bus below it
  std::vector<PciBridge> bridges;  // from the host bridge down
  int numa_node = -1;
  int package = -1;
  // The source does not tell the node: the machine has only this one, or NCCL puts there what it does
  // not find on PCI.
  bool is_node_assumed = false;

  [[nodiscard]] bool operator==(const PciPlace&) const = default;
};

// One way out: a port of an RDMA device with its network interface. Either may be missing.
struct Nic {
  std::string rdma;    // "mlx5_0"
  int port = 1;        // of the RDMA device
  std::string netdev;  // "ens1f0"
  int mbit_per_s = -1;
  bool is_virtual_function = false;  // of a card that is shared by SR-IOV
  std::string physical_function;     // whose it is: "0000:18:00.0"; empty: its own, or unknown
  std::string bond;                  // the bonded interface that it is a part of
  PciPlace place;

  // "mlx5_0", "mlx5_0:2", "ens1f0"; a PCI address where a file has no name for it
  [[nodiscard]] std::string name() const;
  [[nodiscard]] bool operator==(const Nic&) const = default;
};

struct Gpu {
  int index = 0;
  std::string model;
  std::uint64_t memory_bytes = 0;
  PciPlace place;
  std::string uuid{};                    // the driver's: "GPU-8932f937-…"; empty: unknown
  std::vector<std::string> mig_uuids{};  // of its MIG devices

  [[nodiscard]] bool operator==(const Gpu&) const = default;
};

enum class GpuLinkKind : std::uint8_t { nvlink, xgmi };
[[nodiscard]] std::string_view name(GpuLinkKind kind);  // "NVLink", "xGMI"

// A direct connection of a GPU to another GPU, or to a switch of them.
struct GpuLink {
  static constexpr int kSwitch = -1;
  int gpu = 0;             // Gpu::index
  int peer = kSwitch;      // Gpu::index
  int lanes = 0;           // links side by side
  double gbyte_per_s = 0;  // of all of them, one way; 0: unknown
  GpuLinkKind kind = GpuLinkKind::nvlink;

  [[nodiscard]] bool operator==(const GpuLink&) const = default;
};

struct Machine {
  std::string source;  // "this machine", the file's name, or the synthetic string
  std::string cpu;     // model name
  int packages = 0;
  int cores = 0;
  int threads = 0;  // hardware threads that may be used
  std::vector<CacheLevel> caches;
  std::vector<NumaNode> nodes;
  std::uint64_t memory_bytes = 0;
  HugePageState huge_pages;
  std::vector<Nic> nics;  // by name
  std::vector<Gpu> gpus;  // by index
  std::vector<GpuLink> gpu_links;
  bool are_gpu_links_known = false;  // if not, there may be links although gpu_links is empty
  // What could not be asked for, a phrase each with the reason: "NUMA nodes, because /sys is not
  // mounted". The machine may have it although it is not here.
  std::vector<std::string> unreadable;
  // Devices that a correction has and the source has not, a phrase each: "eth1, GPU 3 (by fix.toml)".
  std::vector<std::string> added;
  // What a file has and this value does not, a phrase each with the reason: "0000:03:00.0 (a display
  // of the server's own, no accelerator)".
  std::vector<std::string> left_out;

  [[nodiscard]] bool operator==(const Machine&) const = default;
};

[[nodiscard]] Result<Machine> discover_machine();
// From a file (hwloc's or NCCL's XML, or nvidia-smi's table, told apart by what is in it) or
// "synthetic:" and a description as hwloc takes it. Errors name the file, and the line where there is one; where hwloc
// is needed and missing, `unavailable` names the library.
[[nodiscard]] Result<Machine> read_machine(const std::string& from);
// A machine as hwloc XML, with what hwloc has no place for in notes, from which read_machine makes
// it again. `from`: as read_machine takes it, or empty: this machine; `correct`: a file as
// correct_machine takes it, or empty. A topology file of NCCL has too little for it.
[[nodiscard]] Result<std::string> export_machine(const std::string& from = {},
                                                 const std::string& correct = {});
// A machine as a topology file of NCCL (NCCL_TOPO_FILE). `invalid_argument`: a GPU has no PCI address.
[[nodiscard]] Result<std::string> nccl_topology(const Machine& machine);
// Rings over its GPUs and network interfaces for NCCL (NCCL_GRAPH_FILE), a channel for each interface,
// which begins and ends next to it. `invalid_argument`: it has none, or their rate is unknown.
[[nodiscard]] Result<std::string> nccl_graph(const Machine& machine);
// Replaces and adds what a TOML file says; the format is in docs/hardware.md. What it names and the
// machine does not have is added. Errors name the file and the line.
[[nodiscard]] Status correct_machine(Machine& machine, const std::string& path);

// What the source does not say where a plan would need it, a phrase each: "the rate of eth0, eth1".
[[nodiscard]] std::vector<std::string> unknown_in(const Machine& machine);

// Of what was concluded, corrected or left out, for people: "taken to be" and "bond0 on node 0, …".
struct Remark {
  std::string_view about;
  std::vector<std::string> phrases;
};
// Those that the machine gives reason for.
[[nodiscard]] std::vector<Remark> remarks_on(const Machine& machine);

// What an interface carries: its rate, or that of PCI on the way to it, if that is lower. -1: unknown.
[[nodiscard]] int carried_mbit_per_s(const Nic& nic);
// Whether another interface has the wire of this one, and its rate: the card of a virtual function, or an
// earlier function of that card; the bonded interface of which this is a part.
[[nodiscard]] bool is_counted_elsewhere(const Nic& nic, const Machine& machine);

// How near two devices are, nearest first; the names that `nvidia-smi topo` uses in parentheses.
enum class Nearness : std::uint8_t {
  same_device,  // functions of one card
  one_switch,   // below one PCI switch (PIX)
  switches,     // several PCI switches, no host bridge (PXB)
  host_bridge,  // below one host bridge (PHB)
  numa_node,    // one NUMA node, across its host bridges (NODE)
  package,      // one package, across its NUMA nodes (PKG, which nvidia-smi has not)
  machine,      // across packages, or unknown (SYS)
};
[[nodiscard]] std::string_view name(Nearness nearness);
[[nodiscard]] std::string_view description(Nearness nearness);

struct Distance {
  Nearness nearness = Nearness::machine;
  double gbyte_per_s = 0;  // of the slowest PCI link between them; 0: one is unknown
  int bridges = 0;         // that a byte crosses
};
[[nodiscard]] Distance distance(const PciPlace& a, const PciPlace& b);
// To the cores and the memory of a NUMA node.
[[nodiscard]] Nearness distance(const PciPlace& device, const NumaNode& node);
// To a core, by the number that the kernel has for one of its hardware threads.
[[nodiscard]] Nearness distance(const PciPlace& device, const Machine& machine, int processor);
// The node of such a thread; null: unknown.
[[nodiscard]] const NumaNode* node_of(const Machine& machine, int processor);

// What this machine's PCI does with transfers from one device to another, as in GPUDirect RDMA. They are
// fast where they stay below a bridge that both have in common. Access Control Services (ACS) of a port
// on the way may send them up to the root complex, and an IOMMU that translates their addresses is
// there, too. Devices with an Address Translation Service (ATS) have them translated before.
struct PeerTraffic {
  bool has_common_bridge = false;
  std::vector<std::string> redirecting;  // ports on the way whose ACS does so, by their addresses
  std::vector<std::string> unreadable;   // ports whose configuration this process may not read
  bool translates = false;               // both devices use ATS
  bool passes_translated = false;        // ACS lets pass what ATS has translated
  bool is_behind_iommu = false;          // which translates for one of them
};
// `sys`: of the machine on which the devices are.
[[nodiscard]] PeerTraffic peer_traffic(const PciPlace& from, const PciPlace& to,
                                       const std::string& sys = "/sys");
// For people.
[[nodiscard]] std::string describe(const PeerTraffic& traffic);

}  // namespace weft
