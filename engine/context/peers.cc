// Peers: connecting to them, and which of our network interfaces carry what goes to them.
#include <fmt/core.h>
#include <unistd.h>

#include <map>
#include <optional>

#include "engine/context/core.h"

namespace weft {
namespace {

std::string address_key(std::uint16_t context, Rank rank) {
  return fmt::format("context/{}/address/{}", context, rank);
}

bool is_one_nearer(const OpenedRails& rails) {
  return std::ranges::adjacent_find(rails.distances, std::ranges::not_equal_to(),
                                    &RailDistance::far) != rails.distances.end();
}

}  // namespace

Status Context::Core::tell_address() {
  return roster_.put(address_key(number_, config_.rank), interface_->address());
}

Result<std::string> Context::Core::address_of(Rank rank) {
  return roster_.get_from(rank, address_key(number_, rank),
                          Deadline::after_ms(config_.deadline_ms));
}

// For an operation.
Result<Contact*> Context::Core::contact(Rank rank) {
  if (Contact* recent = recent_contact(rank)) return recent;
  WEFT_ASSIGN(Contact * known, connected(rank));
  if (!known->are_rails_chosen) choose_rails_to(*known);
  return recent_contacts_[static_cast<std::size_t>(rank) % recent_contacts_.size()] = known;
}

// Connected at the first operation that needs the rank, or when it asks for something, so memory
// grows with the ranks talked to.
Result<Contact*> Context::Core::connected(Rank rank) {
  if (const auto known = contacts_.find(rank); known != contacts_.end()) return known->second.get();
  WEFT_ASSIGN(const std::string address, address_of(rank));
  const MemoryPreference beside(place_.node);  // for its slots
  WEFT_ASSIGN(Endpoint * endpoint, interface_->connect(rank, address));
  const bool local = endpoint->shares_memory();
  if (local && config_.foreign == ForeignPath::cma && !endpoint->process_access().ok())
    return endpoint->process_access();
  auto made = std::make_unique<Contact>();
  made->rank = rank;
  made->endpoint = endpoint;
  Contact* raw = made.get();
  {
    const std::lock_guard lock(contacts_mutex_);
    contacts_.emplace(rank, std::move(made));
  }
  WEFT_ASSIGN(const std::optional<std::int32_t> process, process_behind(address));
  if (local && process && *process != getpid()) {
    // Without a watch the end of that process is still told by the store, only later.
    if (Status status = membership_.watch(rank, *process); !status.ok())
      log(LogLevel::warning, status.to_string());
  }
  return raw;
}

Status Context::Core::contacts(std::span<const Rank> ranks, std::vector<Contact*>& into) {
  for (const Rank rank : ranks) {
    WEFT_ASSIGN(Contact * found, contact(rank));
    into.push_back(found);
  }
  return {};
}

bool Context::Core::has_left(Rank rank) {
  const std::lock_guard lock(contacts_mutex_);
  const auto known = contacts_.find(rank);
  return known != contacts_.end() && known->second->endpoint->peer_closed();
}

// Whether this rank may have to use some of its interfaces and not others. Ranks for which none is
// nearer do not ask who else is on their machine.
bool Context::Core::has_choice_of_rails() const {
  if (config_.rails == RailChoice::all) return false;
  if (ib_.members.size() < 2 && ucx_.members.size() < 2) return false;
  return config_.rails == RailChoice::near || is_one_nearer(ib_) || is_one_nearer(ucx_);
}

// Known when all ranks have said what they have. That is waited for once: without it all rails do.
void Context::Core::choose_rails_to(Contact& contact) {
  contact.are_rails_chosen = true;
  if (contact.endpoint->shares_memory() || uses_all_rails_ || !has_choice_of_rails()) return;
  const bool is_first = !machines_;
  const Result<const Machines*> all = machines();
  if (!all.ok()) {
    uses_all_rails_ = true;
    log(LogLevel::warning,
        fmt::format("all rails carry what goes to other machines, near or far: {}",
                    all.status().to_string()));
    return;
  }
  for (const std::string& rail : used_rails()) {
    if (is_first) log(LogLevel::info, rail);
  }
  std::vector<int> members;
  const auto add = [&](const OpenedRails& opened, Machines::Used Machines::RailsOfRank::*kind) {
    for (const int rail : (*all)->used_between(config_.rank, contact.rank, kind))
      members.push_back(opened.members[static_cast<std::size_t>(rail)]);
  };
  add(ib_, &Machines::RailsOfRank::ib);
  add(ucx_, &Machines::RailsOfRank::ucx);
  contact.endpoint->use_members(members);
}

// "uses rail 1: mlx5_1 and GPU 1 are below one PCI switch" and so on; nothing where all are used.
std::vector<std::string> Context::Core::used_rails() const {
  std::vector<std::string> lines;
  const auto add = [&lines](const OpenedRails& opened, const Machines::Used& used) {
    for (const int rail : used.rails) {
      lines.push_back(
          fmt::format("uses rail {}: {}", rail, opened.reasons[static_cast<std::size_t>(rail)]));
    }
  };
  const Machines::RailsOfRank& own = machines_->rails[static_cast<std::size_t>(config_.rank)];
  add(ib_, own.ib);
  add(ucx_, own.ucx);
  return lines;
}

// A line for each peer of a call.
std::string Context::Core::describe_paths(const Call& call) const {
  std::map<Rank, const Endpoint*> peers;
  for (const Contact* contact : call.in) peers.emplace(contact->rank, contact->endpoint);
  for (const Contact* contact : call.out) peers.emplace(contact->rank, contact->endpoint);
  std::string text;
  for (const auto& [rank, endpoint] : peers)
    text += fmt::format("  rank {}: {}\n", rank, interface_->path_to(*endpoint));
  return text;
}

}  // namespace weft
