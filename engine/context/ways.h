// ways: the transports of a rank, opened as the configuration asks: shared memory inside the
// machine, a rail per network interface beyond it, all behind one Interface. With networks.h the
// only place that names concrete transports. Internal to the module.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/config/config.h"
#include "engine/context/machines.h"
#include "engine/context/networks.h"
#include "engine/context/workplace.h"
#include "engine/lane/lane.h"
#include "verbs/memory/memory.h"
#include "verbs/transport/transport.h"

namespace weft {

// Config::transports of a job, with `automatic` decided: networks are opened where the job may span
// machines.
[[nodiscard]] Transports chosen_transports(const Config& config);
// The same, agreed among all ranks where `weft run` started them on one machine: each may still be in
// a container with a host name of its own, or have its own WEFT_HOST. Then all open networks, and the
// rank whose name is another says so. Collective.
[[nodiscard]] Result<Transports> agreed_transports(const Config& config, Store& store);

// What all ways have in common, but for the context's number and the machine.
[[nodiscard]] InterfaceOptions interface_options(const Config& config);

struct Ways {
  std::unique_ptr<Interface> interface;
  // The network interfaces, by their numbers in the bond, and of each how near it is: "mlx5_3 and
  // GPU 3 are below one PCI switch".
  std::vector<RailRecord> rails;
  std::vector<std::string> reasons;
  LanePlace place;      // beside those
  Status memory_place;  // whether the kernel took the memory's
};

// The bond over shared memory, which may be null, and `rails`, which `ways` has by their numbers. One
// that Config::interfaces names has to open. One that was only found and is gone since then is left
// out with a warning, and of `ways`, unless none is left.
[[nodiscard]] Status open_rails(const Config& config, BondOptions bond, const BondMember* memory,
                                std::vector<NetworkRail> rails, AddressResolver resolver,
                                Ways& ways);

// Opens what Config::transports says, without what Config::hardware says is absent. `unavailable`
// names what is missing if a transport was asked for by name. Where networks are only automatic and
// cannot be had, connecting to a rank of another machine says why.
[[nodiscard]] Result<Ways> open_ways(const Config& config, const InterfaceOptions& options,
                                     Hardware& hardware, AddressResolver resolver);

// The heap behind the address of a peer that shares this machine's memory, mapped here.
[[nodiscard]] Result<std::shared_ptr<const PeerHeap>> heap_behind(std::string_view address);

}  // namespace weft
