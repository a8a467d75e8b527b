// The parts of read_facts. Internal to the module.
#pragma once

#include "tools/diagnosis/facts.h"
#include "tools/diagnosis/files.h"
#include "topology/hardware/hardware.h"

namespace weft::diagnosis {

struct Root {
  fs::path path;        // "/", or a folder laid out alike
  bool is_live = true;  // "/": system calls tell of the same host

  [[nodiscard]] fs::path sys() const { return path / "sys"; }
  // What a process is told of itself; of another root, its first process.
  [[nodiscard]] fs::path self() const;
};

// Limits, capabilities, processors, memory, huge pages, /dev/shm, control groups, clock.
void read_process(const Root& root, HostFacts& facts);
// Interfaces and ports; facts.nics.
void read_nics(const Root& root, HostFacts& facts);
// GPUs, what PCI does between them and RDMA ports, and drivers for both.
void read_gpus(const Root& root, HostFacts& facts);
// The present counters of facts.nics.
[[nodiscard]] Look read_counters(const Root& root, const HostFacts& facts);

// Where a device sits. Of an address that the kernel does not know, the address alone.
struct PciDevice {
  PciFacts facts;
  PciPlace place;
};
[[nodiscard]] PciDevice read_pci(const Root& root, const std::string& address);

}  // namespace weft::diagnosis
