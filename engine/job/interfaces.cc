#include "engine/job/interfaces.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "engine/job/workplace.h"
#include "engine/networks/networks.h"
#include "verbs/bond/bond.h"
#include "verbs/memory/memory.h"
#include "verbs/shm/shm.h"

namespace weft {
namespace {

// Notices in shared memory for each slot with a payload. A message of up to 8 bytes fits the header
// and needs no payload. With more notices than payloads, ranks that share cores can send many such
// messages before they must yield.
constexpr std::uint32_t kNoticesPerSlot = 4;

// Whether all ranks are known to be on this machine.
bool is_one_machine(const Config& config) {
  if (!config.host.empty()) return false;
  if (config.local_size > 0) return config.local_size == config.size;
  return config.rendezvous.empty() && config.launcher != Launcher::pmix;
}

Status leave_out_absent(const Config& config, const Surroundings& here,
                        std::vector<NetworkRail>& rails) {
  const auto is_absent = [&here](const NetworkRail& rail) {
    return nic_named(here.absent, rail.name) != nullptr;
  };
  const auto first = std::ranges::find_if(rails, is_absent);
  if (first == rails.end()) return {};
  if (!config.interfaces.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("WEFT_INTERFACES names {}, which {} says is absent", first->name,
                              config.hardware));
  }
  std::erase_if(rails, is_absent);
  if (!rails.empty()) return {};
  return Status(Code::unavailable,
                fmt::format("{} says that all network interfaces are absent", config.hardware));
}

// The surroundings, if they are needed: if there are several rails, or if the user names a hardware
// file or a GPU. Else empty ones.
Result<Surroundings> looked_around(const Config& config, std::size_t rails, Hardware& hardware) {
  const bool is_told = !config.hardware.empty() || config.gpu >= 0;
  if (rails < 2 && !is_told) return Surroundings();
  const Result<const Surroundings*> found = hardware.get(config);
  if (found.ok()) return **found;
  if (is_told) return found.status();
  log(LogLevel::warning, fmt::format("which network interfaces are near is not known: {}",
                                     found.status().to_string()));
  return Surroundings();
}

Status place_rails(const Config& config, std::vector<NetworkRail>& rails, Hardware& hardware,
                   OpenedInterfaces& opened) {
  WEFT_ASSIGN(const Surroundings here, looked_around(config, rails.size(), hardware));
  WEFT_ASSIGN(const Workplace place, workplace_of(config, here));
  if (!here.shown.by.empty() && config.gpu == Config::kUsualGpu) {
    log(LogLevel::info,
        fmt::format("works with {}: {}",
                    place.gpu < 0 ? "no GPU" : fmt::format("GPU {}", place.gpu), here.shown.by));
  }
  if (!config.hardware.empty()) WEFT_RETURN_IF_ERROR(leave_out_absent(config, here, rails));
  std::vector<int>& nodes = opened.nodes;
  const bool has_choice = has_several_nodes();
  for (NetworkRail& rail : rails) {
    const Nic* nic = nic_named(here.machine.nics, rail.name);
    const bool is_told = nic != nullptr && nic->place.numa_node >= 0;
    nodes.push_back(is_told ? nic->place.numa_node : rail.numa_node);
    if (has_choice) rail.member.node = nodes.back();
    const RailDistance distance = distance_to(here.machine, place, rail.name);
    opened.rails.push_back({rail.member.kind, rail.name, rail.member.rail, distance.far,
                            distance.mbit_per_s, rail.address});
    opened.reasons.push_back(how_near(here.machine, place, rail.name));
  }
  opened.place = place_lane_here(nodes, told_node(here, place));
  return {};
}

// Whether every rail has a name that no other rail of its kind has. Else peers pair rails by their
// order, and a rail that is left out would change the pairs.
bool have_names_of_their_own(const std::vector<NetworkRail>& rails) {
  std::set<std::pair<std::string, std::string>> names;
  return std::ranges::all_of(rails, [&names](const NetworkRail& rail) {
    return !rail.member.rail.empty() && names.emplace(rail.member.kind, rail.member.rail).second;
  });
}

// The rail's bond member. If it cannot be opened, the error names the rail, and says whether
// WEFT_INTERFACES names it.
BondMember with_name(NetworkRail rail, bool is_named) {
  BondMember member = std::move(rail.member);
  member.device = rail.name;
  const std::string whose =
      is_named ? fmt::format("WEFT_INTERFACES names {}, which", rail.name) : rail.name;
  member.open = [open = std::move(member.open),
                 whose](AddressResolver resolver) -> Result<std::unique_ptr<Interface>> {
    Result<std::unique_ptr<Interface>> opened = open(std::move(resolver));
    if (opened.ok()) return opened;
    const Status& why = opened.status();
    return Status(why.code(), fmt::format("{} cannot be opened: {}", whose, why.text()),
                  why.rank());
  };
  return member;
}

}  // namespace

InterfaceOptions interface_options(const Config& config) {
  InterfaceOptions options;
  // The control channel comes before the channels of operations, that of subset operations after
  // them.
  options.channels = static_cast<std::uint32_t>(config.channels) + kChannelsBeside;
  options.payload_slots = static_cast<std::uint32_t>(config.slots);
  options.slots = options.payload_slots * kNoticesPerSlot;
  options.payload_bytes = static_cast<std::size_t>(config.eager_bytes);
  options.job = static_cast<std::uint32_t>(fnv1a64(config.job_key));
  return options;
}

Transports chosen_transports(const Config& config) {
  if (!config.transports.automatic) return config.transports;
  const bool networks = !is_one_machine(config);
  return {true, true, networks, networks};
}

Result<Transports> agreed_transports(const Config& config, Store& store) {
  const Transports chosen = chosen_transports(config);
  const bool is_weft_run = config.launcher == Launcher::weft &&
                           config.served_by == ServedBy::launcher && !config.rendezvous.empty();
  if (!is_weft_run || !config.transports.automatic || config.size == 1) return chosen;
  const Deadline deadline = Deadline::after_ms(config.deadline_ms);
  const MachineRecord here = this_machine(config.host);
  const std::string own = fmt::format("{:x}", here.identity);
  if (config.rank == 0 && store.incarnation() == 0)
    WEFT_RETURN_IF_ERROR(store.put("machine/of rank 0", own));
  WEFT_ASSIGN(const std::string first, store.get_from(0, "machine/of rank 0", deadline));
  if (first != own) {
    log(config.host.empty() ? LogLevel::warning : LogLevel::info,
        fmt::format("this rank is on {}, rank 0 on a machine of another name: they talk over a "
                    "network",
                    here.name));
    WEFT_RETURN_IF_ERROR(store.put("machine/there are several", "yes"));
  }
  // The others do not wait for a rank that has come back.
  const Status met = store.incarnation() == 0 ? store.fence(deadline) : Status();
  const bool goes_on = is_gone(met) && config.on_death == OnDeath::skip;
  if (!met.ok() && !goes_on) return met;
  const Status several = store.get("machine/there are several", Deadline::after_ms(0)).status();
  if (several.ok()) return Transports{true, true, true, true};
  if (several.code() != Code::timed_out) return several;
  return chosen;
}

Status open_rails(const Config& config, BondOptions bond, const BondMember* memory,
                  std::vector<NetworkRail> rails, AddressResolver resolver,
                  OpenedInterfaces& opened) {
  struct Gone {
    std::size_t rail;
    Status why;
  };
  std::vector<Gone> gone;
  const bool are_named = !config.interfaces.empty();
  if (!are_named && have_names_of_their_own(rails))
    bond.left_out = [&gone](std::size_t rail, const Status& why) { gone.push_back({rail, why}); };
  std::vector<BondMember> members;
  for (NetworkRail& rail : rails) members.push_back(with_name(std::move(rail), are_named));
  WEFT_ASSIGN(opened.interface, open_bond(bond, memory, std::move(members), std::move(resolver)));
  for (std::size_t i = gone.size(); i-- > 0;) {
    const auto rail = static_cast<std::ptrdiff_t>(gone[i].rail);
    opened.rails.erase(opened.rails.begin() + rail);
    opened.reasons.erase(opened.reasons.begin() + rail);
    if (!opened.nodes.empty()) opened.nodes.erase(opened.nodes.begin() + rail);
  }
  for (const Gone& each : gone) {
    log(LogLevel::warning,
        fmt::format("this rank does without a network interface: {}", each.why.text()));
  }
  return {};
}

Result<OpenedInterfaces> open_interfaces(const Config& config, const InterfaceOptions& options,
                                         Hardware& hardware, AddressResolver resolver) {
  const Transports& transports = config.transports;
  BondOptions bond;
  bond.rank = config.rank;
  bond.channels = options.channels;
  bond.slots = static_cast<std::uint32_t>(config.rail_slots);
  bond.payload_bytes = options.payload_bytes;
  bond.silence_ms = config.path_silence_ms;
  std::vector<NetworkRail> rails;
  if (transports.networks()) {
    Result<std::vector<NetworkRail>> found = network_rails(config, options);
    const bool wanted = !transports.automatic || !config.interfaces.empty();
    if (!found.ok() && wanted) return found.status();
    if (found.ok()) {
      rails = std::move(*found);
    } else {
      bond.no_networks = found.status().text();
    }
  } else {
    bond.no_networks = config.transports.automatic
                           ? "none was opened, as the launcher put all ranks on one machine"
                           : "WEFT_TRANSPORTS leaves networks out";
  }
  OpenedInterfaces opened;
  WEFT_RETURN_IF_ERROR(place_rails(config, rails, hardware, opened));
  opened.memory_place = MemoryPreference(opened.place.node).status();
  const BondMember memory{{},
                          {},
                          [&config, &options](AddressResolver find) {
                            return open_shm(config.rank, options, std::move(find));
                          },
                          opened.place.node};
  WEFT_RETURN_IF_ERROR(open_rails(config, std::move(bond), transports.shm ? &memory : nullptr,
                                  std::move(rails), std::move(resolver), opened));
  return opened;
}

Result<std::shared_ptr<const PeerHeap>> heap_behind(std::string_view address) {
  WEFT_ASSIGN(const std::string memory, memory_address(address));
  return shm_heap(memory);
}

}  // namespace weft
