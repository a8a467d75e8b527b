#include "engine/context/ways.h"

#include <fmt/core.h>

#include <algorithm>

#include "engine/context/hash.h"
#include "engine/context/networks.h"
#include "verbs/bond/bond.h"
#include "verbs/shm/shm.h"

namespace weft {
namespace {

// Notices in shared memory for each eager slot. A message of up to 8 bytes is its header and takes
// no slot, so ranks that share cores send many of them before they must yield.
constexpr std::uint32_t kNoticesPerSlot = 4;

// Whether all ranks are known to be on this machine.
bool is_one_machine(const Config& config) {
  if (!config.host.empty()) return false;
  if (config.local_size > 0) return config.local_size == config.size;
  return config.rendezvous.empty() && config.launcher != Launcher::pmix;
}

}  // namespace

InterfaceOptions interface_options(const Config& config) {
  InterfaceOptions options;
  // One for control before those of operations, one for operations of some ranks after them.
  options.channels = static_cast<std::uint32_t>(config.channels) + 2;
  options.payload_slots = static_cast<std::uint32_t>(config.slots);
  options.slots = options.payload_slots * kNoticesPerSlot;
  options.payload_bytes = static_cast<std::size_t>(config.eager_bytes);
  options.job = static_cast<std::uint32_t>(fnv1a(config.job_key));
  return options;
}

Transports chosen_transports(const Config& config) {
  if (!config.transports.automatic) return config.transports;
  const bool networks = !is_one_machine(config);
  return {true, true, networks, networks};
}

Result<Ways> open_ways(const Config& config, const InterfaceOptions& options,
                       AddressResolver resolver) {
  const Transports& transports = config.transports;
  BondOptions bond;
  bond.rank = config.rank;
  bond.channels = options.channels;
  bond.slots = static_cast<std::uint32_t>(config.rail_slots);
  bond.payload_bytes = options.payload_bytes;
  bond.silence_ms = config.path_silence_ms;
  std::vector<BondMember> rails;
  std::vector<int> numa_nodes;
  if (transports.networks()) {
    Result<std::vector<NetworkRail>> found = network_rails(config, options);
    const bool wanted = !transports.automatic || !config.interfaces.empty();
    if (!found.ok() && wanted) return found.status();
    if (found.ok()) {
      for (NetworkRail& rail : *found) {
        rails.push_back(std::move(rail.member));
        numa_nodes.push_back(rail.numa_node);
      }
    } else {
      bond.no_networks = found.status().text();
    }
  } else {
    bond.no_networks = config.transports.automatic
                           ? "none was opened, as the launcher put all ranks on one machine"
                           : "WEFT_TRANSPORTS leaves networks out";
  }
  const BondMember memory{{}, {}, [&config, &options](AddressResolver find) {
                            return open_shm(config.rank, options, std::move(find));
                          }};
  Ways ways;
  ways.ib_rails = static_cast<int>(std::ranges::count(rails, "ib", &BondMember::kind));
  ways.ucx_rails = static_cast<int>(std::ranges::count(rails, "ucx", &BondMember::kind));
  ways.place = place_lane_here(numa_nodes);
  const MemoryPreference beside(ways.place.node);
  ways.memory_place = beside.status();
  WEFT_ASSIGN(ways.interface, open_bond(bond, transports.shm ? &memory : nullptr, std::move(rails),
                                        std::move(resolver)));
  return ways;
}

Result<std::optional<std::int32_t>> process_behind(std::string_view address) {
  WEFT_ASSIGN(const std::string memory, memory_address(address));
  if (memory.empty()) return std::optional<std::int32_t>();
  WEFT_ASSIGN(const std::int32_t process, shm_process(memory));
  return std::optional(process);
}

}  // namespace weft
