// gid_table: the address table of one RDMA port, each entry with whether it can be used. Internal
// to the module; reads files, any thread may call.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "verbs/device/device.h"

namespace weft::device {

// The entries that are set, of the port whose folder this is. `link_layer` tells InfiniBand from
// RoCE v1: the kernel's word for both is "IB/RoCE v1".
[[nodiscard]] std::vector<RdmaGid> read_gids(const std::filesystem::path& port,
                                             const std::string& link_layer,
                                             const RdmaSources& from);

// The network interface of the first entry that names one; empty: none does. RoCE has one in the
// first place as soon as the interface is there.
[[nodiscard]] std::string first_netdev(const std::filesystem::path& port);

// Why a network interface carries nothing now; empty: it does, or the kernel does not say.
[[nodiscard]] std::string netdev_fault(const std::string& netdev, const RdmaSources& from);

}  // namespace weft::device
