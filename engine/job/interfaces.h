// interfaces: opens the transports of a rank as the configuration asks. Shared memory leads to ranks of
// the same machine, and a rail for each network interface to the others; one Interface bonds them
// all. Only this file and engine/networks name concrete transports.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/config/config.h"
#include "engine/job/machines.h"
#include "engine/job/workplace.h"
#include "engine/lane/lane.h"
#include "engine/networks/networks.h"
#include "verbs/memory/memory.h"
#include "verbs/transport/transport.h"

namespace weft {

// Config::transports with `automatic` decided: networks are opened unless all ranks are known to be
// on this machine.
[[nodiscard]] Transports chosen_transports(const Config& config);
// chosen_transports(), agreed among all ranks. If `weft run` started all ranks on one machine, a
// rank may still name another machine: it may have its own WEFT_HOST, or be in a container with its
// own host name. All ranks then open networks, and the rank with the other name logs that.
// Collective.
[[nodiscard]] Result<Transports> agreed_transports(const Config& config, Store& store);

// The options that all interfaces have in common, except the context's number and the machine.
[[nodiscard]] InterfaceOptions interface_options(const Config& config);

struct OpenedInterfaces {
  std::unique_ptr<Interface> interface;
  // The network interfaces in the order of the bond. `reasons` says of each how near it is: "mlx5_3
  // and GPU 3 are below one PCI switch".
  std::vector<RailRecord> rails;
  std::vector<std::string> reasons;
  std::vector<int> nodes;  // of each, the NUMA node of its card; -1: unknown
  LanePlace place;         // the NUMA node and cores for the lane
  Status memory_place;     // ok, or why the kernel did not accept that node for memory
};

// Opens the bond of shared memory (`memory` may be null) and `rails`, which opened.rails describes in
// the same order. A rail that Config::interfaces names must open. If no rail was named and all have
// different names, a discovered rail that has gone since is left out of the bond and of `opened`,
// with a warning; it is an error if no rail is left.
[[nodiscard]] Status open_rails(const Config& config, BondOptions bond, const BondMember* memory,
                                std::vector<NetworkRail> rails, AddressResolver resolver,
                                OpenedInterfaces& opened);

// Opens the transports of Config::transports, without interfaces that Config::hardware declares
// absent. If a transport was asked for by name and is missing, returns `unavailable`. If networks
// are only automatic and there are none, connecting to a rank of another machine fails and says
// why.
[[nodiscard]] Result<OpenedInterfaces> open_interfaces(const Config& config,
                                                       const InterfaceOptions& options,
                                                       Hardware& hardware,
                                                       AddressResolver resolver);

// The heap of a peer that shares this machine's memory, found by the peer's address and mapped
// here.
[[nodiscard]] Result<std::shared_ptr<const PeerHeap>> heap_behind(std::string_view address);

}  // namespace weft
