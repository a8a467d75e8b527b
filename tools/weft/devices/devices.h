// What `weft devices` found, and its two forms: tables for people, JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "verbs/cuda/cuda.h"
#include "verbs/device/device.h"

namespace weft {

// A GID, whose it is, and how well it suits the peer.
struct RankedGid {
  const RdmaPort* port = nullptr;
  const RdmaGid* gid = nullptr;
  int score = -1;  // gid_score; below 0: no packet gets there
  std::string reason{};
};

// A library that Weft uses where it is there.
struct OptionalLibrary {
  std::string file;
  std::string purpose;    // what is not possible without it
  std::string package;    // that has it
  std::string missing{};  // why it cannot be loaded; empty: it can
};
// All of them. Loads those that are there.
[[nodiscard]] std::vector<OptionalLibrary> optional_libraries();

struct DeviceReport {
  std::vector<OptionalLibrary> libraries;
  std::vector<NetworkInterface> interfaces;
  std::vector<RdmaPort> ports;
  std::string no_rdma;  // why `ports` is empty
  std::vector<GpuDevice> gpus;
  std::string cuda;    // version of the driver
  std::string no_gpu;  // why `gpus` is empty
  // What settings change, and PCI: a line each.
  std::vector<std::string> remarks;
  bool memory_hooks = false;       // WEFT_MEMORY_HOOKS
  std::string peer;                // the address asked for; empty: none
  std::vector<RankedGid> ranking;  // towards it, best first; points into `ports`
};

// The ranking alone where a peer is asked for, else everything else.
void print_tables(const DeviceReport& report);
// One object with all of it.
[[nodiscard]] std::string devices_json(const DeviceReport& report);

}  // namespace weft
