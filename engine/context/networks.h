// networks: the rails that this build and this machine can open, one per network interface or RDMA
// port. Internal to the module; CMake picks the files behind it by what the build has.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "verbs/bond/bond.h"

namespace weft {

// One way to a network, by the name that WEFT_INTERFACES has for it.
struct NetworkRail {
  BondMember member;
  std::string name;
  int numa_node = -1;  // of its card; -1: not told
};

// Those of all transports that the configuration asks for, RDMA before UCX. `unavailable` if there
// are none, or if one that was asked for by name is not there.
[[nodiscard]] Result<std::vector<NetworkRail>> network_rails(const Config& config,
                                                             const InterfaceOptions& options);

// Names of the configuration that a kind of rails was looked up by; each kind marks its own.
struct WantedName {
  std::string name;
  bool found = false;
};

// The rails of one transport: those named, or all that are usable if no names are given. None is no
// error where none is named; the text says why there are none.
struct Rails {
  std::vector<NetworkRail> members;
  std::string missing;
};
[[nodiscard]] Result<Rails> ib_rails(const Config& config, const InterfaceOptions& options,
                                     std::span<WantedName> names);
[[nodiscard]] Result<Rails> ucx_rails(const Config& config, const InterfaceOptions& options,
                                      std::span<WantedName> names);

}  // namespace weft
