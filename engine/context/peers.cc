// peers: connecting.
#include "engine/context/peers.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "engine/gpu/gpu.h"
#include "engine/job/job.h"

namespace weft {

std::string AddressBook::key_of(Rank rank) const {
  if (lane_ == 0) return fmt::format("context/{}/address/{}", context_, rank);
  return fmt::format("context/{}/lane/{}/address/{}", context_, lane_, rank);
}

Status AddressBook::tell(std::string address) const {
  return rank_map_.put(key_of(rank_map_.rank()), std::move(address));
}

Result<std::string> AddressBook::address_of(Rank rank) const {
  return rank_map_.get_from(rank, key_of(rank), Deadline::after_ms(deadline_ms_));
}

Result<std::string> AddressBook::address_of_joined(Rank rank) const {
  return rank_map_.get_from(rank, key_of(rank), Deadline::after_ms(0));
}

Result<Contact*> Peers::find(Rank rank) {
  Contact* found = known(rank);
  if (found == nullptr) {
    WEFT_ASSIGN(const std::string address, addresses_.address_of(rank));
    WEFT_ASSIGN(found, connect(rank, address));
  }
  if (!found->are_rails_chosen) WEFT_RETURN_IF_ERROR(rails_.choose_to(*found));
  if (!found->are_rails_chosen) return found;
  return recent_[static_cast<std::size_t>(rank) % recent_.size()] = found;
}

Contact* Peers::known(Rank rank) const {
  const auto found = contacts_.find(rank);
  return found == contacts_.end() ? nullptr : found->second.get();
}

Result<Contact*> Peers::connected(Rank rank) {
  if (Contact* const found = known(rank)) return found;
  WEFT_ASSIGN(const std::string address, addresses_.address_of_joined(rank));
  return connect(rank, address);
}

Result<Contact*> Peers::connect(Rank rank, const std::string& address) {
  WEFT_ASSIGN(Endpoint * endpoint, interface_.connect(rank, address));
  if (endpoint->shares_memory() && config_.foreign == ForeignPath::cma)
    WEFT_RETURN_IF_ERROR(endpoint->process_access());
  auto made = std::make_unique<Contact>();
  made->rank = rank;
  made->endpoint = endpoint;
  Contact* raw = made.get();
  {
    const std::lock_guard lock(mutex_);
    contacts_.emplace(rank, std::move(made));
  }
  WEFT_RETURN_IF_ERROR(watch(*raw, address));
  return raw;
}

// If the peer is another process of this machine, makes membership_ notice the end of that process
// at once.
Status Peers::watch(const Contact& contact, std::string_view address) {
  if (watching_ == Watching::others_do || !contact.endpoint->shares_memory()) return {};
  WEFT_ASSIGN(const std::shared_ptr<const PeerHeap> heap, heap_behind(address));
  if (heap->is_own()) return {};
  // Without a watch, the store still reports the end of that process, only later.
  const Status status = membership_.watch(contact.rank, heap->life(), heap->process());
  if (!status.ok()) log(LogLevel::warning, status.to_string());
  return {};
}

Status Peers::contacts(std::span<const Rank> ranks, std::vector<Contact*>& into) {
  for (const Rank rank : ranks) {
    WEFT_ASSIGN(Contact * found, contact(rank));
    into.push_back(found);
  }
  return {};
}

void Peers::choose_rails() {
  for (const std::string& line : rails_.describe()) log(LogLevel::info, line);
  for (const auto& [rank, contact] : contacts_) rails_.choose_late(*contact);
}

bool Peers::has_left(Rank rank) {
  const std::lock_guard lock(mutex_);
  const auto known = contacts_.find(rank);
  return known != contacts_.end() && known->second->endpoint->peer_closed();
}

std::uint64_t Peers::network_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [rank, contact] : contacts_) {
    if (!contact->endpoint->shares_memory()) bytes += contact->sent_bytes;
  }
  return bytes;
}

std::string Peers::describe_paths(const Call& call) const {
  std::map<Rank, const Contact*> peers;
  for (const Contact* contact : call.in) peers.emplace(contact->rank, contact);
  for (const Contact* contact : call.out) peers.emplace(contact->rank, contact);
  std::string text;
  for (const auto& [rank, contact] : peers) {
    const std::string gpus = describe_gpu_path(*contact);
    text += fmt::format("  rank {}: {}{}{}\n", rank, interface_.path_to(*contact->endpoint),
                        gpus.empty() ? "" : "; ", gpus);
  }
  return text;
}

}  // namespace weft
