// networks: the rails that this build can open on this machine, one for each network interface or
// RDMA port. For whoever opens interfaces. CMake chooses the source files by the libraries of the build.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "verbs/bond/bond.h"

namespace weft {

// An interface that can be opened.
struct NetworkRail {
  BondMember member;
  std::string name;    // as in WEFT_INTERFACES
  int numa_node = -1;  // the node of its card; -1: unknown
  std::string
      address{};  // of the interface, with its prefix: "10.0.0.1/24"; empty: its network says it
  // ok, or why it cannot reach GPU memory by their dma-bufs; empty: it never reaches any.
  std::function<Status()> reaches_gpus{};
};

// The rails of all transports that the configuration asks for, RDMA before UCX. `unavailable` if
// there are none, or if one that was asked for by name is not there.
[[nodiscard]] Result<std::vector<NetworkRail>> network_rails(const Config& config,
                                                             const InterfaceOptions& options);

// A name in WEFT_INTERFACES. The transport that has an interface of this name sets `found`.
struct WantedName {
  std::string name;
  bool found = false;
};

// The rails of one transport: those that `names` lists, or all usable ones if `names` is empty. It
// is no error if there are none; `missing` then says why.
struct Rails {
  std::vector<NetworkRail> members;
  std::string missing;
};
[[nodiscard]] Result<Rails> ib_rails(const Config& config, const InterfaceOptions& options,
                                     std::span<WantedName> names);
[[nodiscard]] Result<Rails> ucx_rails(const Config& config, const InterfaceOptions& options,
                                      std::span<WantedName> names);

}  // namespace weft
