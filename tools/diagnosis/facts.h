// What a host's kernel tells of it, as plain values that travel as JSON. A reader fills them in
// (read_facts), checks look at nothing else. What is not known is -1, empty or absent, and
// `not_checked` says why.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

// Counts changes after which an older reader would misunderstand facts.
inline constexpr int kFactsFormat = 1;

// A link of PCI as one of its ends reports it.
struct PciLink {
  std::string address;       // of that end: "0000:3b:00.0"
  double gt_per_s = 0;       // of a lane; 0: not told
  double most_gt_per_s = 0;  // that this end could do
  int lanes = 0;
  int most_lanes = 0;

  [[nodiscard]] double gbit_per_s() const;  // 0: not told
  [[nodiscard]] double most_gbit_per_s() const;
  [[nodiscard]] std::string text() const;  // "Gen3 x8"
};

struct PciFacts {
  std::string address;         // empty: not on PCI
  std::vector<PciLink> links;  // the device's own, then those of the bridges above it
  int node = -1;               // NUMA
  int relaxed_ordering = -1;   // 1: the device may reorder its writes; -1: not told
  std::string iommu;           // how an IOMMU treats it: "DMA", "DMA-FQ", "identity"
};

struct GidFacts {
  int index = 0;
  std::string kind;  // "RoCE v2"
  std::string ip;
  bool usable = false;
};

// A network interface, an RDMA port, or both in one.
struct NicFacts {
  std::string name;        // "mlx5_0", "mlx5_0:2", "eth0"
  std::string rdma;        // the device; empty: none
  std::string netdev;      // empty: none
  std::string kind;        // as NetworkInterface::kind; "ethernet" or "infiniband": a card
  std::string link_layer;  // RDMA: "InfiniBand", "Ethernet"
  std::string state, phys_state;
  std::string rate;  // RDMA, the driver's words: "100 Gb/sec (4X EDR)"
  int mbit_per_s = -1;
  int most_mbit_per_s = -1;  // of its modes
  int mtu = 0;               // of the network interface; 0: none
  std::string ip, network;   // "10.0.0.1/24", "10.0.0.0/24"
  bool is_routed = false;    // a route by a gateway leaves over it
  std::vector<GidFacts> gids;
  std::string bond;
  bool is_virtual_function = false;
  bool usable = false;
  std::string reason;
  std::string device_file;  // of verbs: "/dev/infiniband/uverbs0"
  int device_error = 0;     // errno of opening it
  std::string driver, firmware, board;
  PciFacts pci;
  int pfc = -1;    // priorities with priority flow control, a bit each
  int pause = -1;  // 1: global pause frames
  int ecn = -1;    // priorities with ECN (DCQCN), a bit each
  int rp_filter = -1, arp_ignore = -1, arp_announce = -1;  // as in force

  [[nodiscard]] bool is_card() const { return kind == "ethernet" || kind == "infiniband"; }
  [[nodiscard]] bool is_roce() const { return !rdma.empty() && link_layer == "Ethernet"; }
};

struct GpuFacts {
  int index = 0;
  std::string model;
  bool is_nvidia = false;
  PciFacts pci;
};

// What PCI does with transfers between a GPU and the RDMA port nearest to it.
struct PeerFacts {
  int gpu = 0;
  std::string nic;
  bool has_common_bridge = false;
  std::vector<std::string> redirecting;  // ports whose ACS sends them up to the root complex
  bool is_translated = false;            // ... but for what ATS has translated
  bool is_behind_iommu = false;
};

// A rank, or this process.
struct RankFacts {
  int rank = 0;
  std::vector<int> cpus;  // on which it may run; empty: not told
  int gpu = -1;           // that it works with
};

struct NodeFacts {
  int index = 0;
  std::vector<int> cpus;
};

// Counters by device and name: "mlx5_0" has "link_downed".
struct Look {
  std::int64_t at_ns = 0;  // of the host's clock; 0: there was none
  std::map<std::string, std::map<std::string, std::int64_t>> counters;
};

struct NotChecked {
  std::string what;
  std::string why;
};

// -1: no limit, where a number is a limit.
struct HostFacts {
  int format = kFactsFormat;
  std::string weft;  // version
  std::string host;
  std::string boot;  // the kernel's boot id
  std::string kernel;
  bool is_root = false;

  bool can_lock = false;            // no limit on locked memory applies (CAP_IPC_LOCK)
  std::int64_t locked_bytes = -1;   // RLIMIT_MEMLOCK
  std::int64_t files = -1;          // RLIMIT_NOFILE, the hard one
  std::int64_t processes = -1;      // RLIMIT_NPROC
  std::int64_t address_bytes = -1;  // RLIMIT_AS
  double cpu_quota = -1;            // cores' worth of time that the cgroup grants
  std::int64_t throttled = -1;      // periods in which it was used up
  std::vector<int> cpus;            // on which this process may run

  std::int64_t memory_bytes = 0;
  std::int64_t huge_page_bytes = 0;
  std::int64_t huge_pages = 0, huge_pages_free = 0;  // of hugetlbfs
  std::string huge_shared;                           // transparent, of shared memory
  std::int64_t shm_bytes = -1, shm_free = -1;        // /dev/shm; -1: not told

  std::vector<NodeFacts> nodes;
  std::vector<NicFacts> nics;
  std::vector<GpuFacts> gpus;
  std::vector<PeerFacts> peers;
  bool has_nvidia = false;                      // its driver
  bool has_peermem = false;                     // nvidia-peermem
  int dma_buf = -1;                             // 1: its driver exports GPU memory as dma-bufs
  std::map<std::string, std::string> versions;  // of drivers, by module

  // What Weft was told.
  std::string interfaces;  // WEFT_INTERFACES
  int traffic_class = 0, gid_index = -1;

  std::int64_t clock_ns = 0;            // when the facts were complete
  int is_clock_synchronized = -1;       // by NTP or PTP
  std::optional<double> clock_least_s;  // by how much it is ahead of the collector's clock,
  std::optional<double> clock_most_s;   // at least and at most

  std::vector<RankFacts> ranks;
  Look before, now;
  std::vector<NotChecked> not_checked;
};

[[nodiscard]] std::string facts_to_json(const HostFacts& facts);
// `mismatch`: facts of another format. Else invalid_argument says what is wrong with the text.
[[nodiscard]] Result<HostFacts> facts_from_json(const std::string& text);
[[nodiscard]] std::string rank_to_json(const RankFacts& facts);
[[nodiscard]] Result<RankFacts> rank_from_json(const std::string& text);

// Where to look. With another root than "/", what only system calls tell is not known.
struct FactSources {
  std::string root = "/";
  int look_again_ms = 1000;  // after which counters are read once more
};
[[nodiscard]] HostFacts read_facts(const FactSources& from = {});
// The cores on which this thread may run.
[[nodiscard]] std::vector<int> own_cpus();
// "0-3,8"
[[nodiscard]] std::string list_text(const std::vector<int>& numbers);

// Nanoseconds since 1970 by this host's clock.
[[nodiscard]] std::int64_t wall_clock_ns();

}  // namespace weft
