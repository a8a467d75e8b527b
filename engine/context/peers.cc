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

Status AddressBook::learn() const {
  std::size_t known = 0;
  {
    const std::lock_guard lock(known_->mutex);
    known = known_->addresses.size();
  }
  for (auto rank = static_cast<Rank>(known); rank < rank_map_.size(); ++rank) {
    WEFT_ASSIGN(std::string address, address_of_joined(rank));
    const std::lock_guard lock(known_->mutex);
    if (std::ssize(known_->addresses) == rank) known_->addresses.push_back(std::move(address));
  }
  return {};
}

bool AddressBook::knows_all() const {
  const std::lock_guard lock(known_->mutex);
  return std::ssize(known_->addresses) == rank_map_.size();
}

Result<std::string> AddressBook::address_of(Rank rank, std::int64_t patience_ms) const {
  {
    const std::lock_guard lock(known_->mutex);
    if (rank < std::ssize(known_->addresses))
      return known_->addresses[static_cast<std::size_t>(rank)];
  }
  return rank_map_.get_from(rank, key_of(rank), Deadline::after_ms(patience_ms));
}

Result<std::string> AddressBook::address_of_joined(Rank rank) const {
  return address_of(rank, 0);
}

Result<PeerConnection*> Peers::find(Rank rank) {
  PeerConnection* found = known(rank);
  if (found == nullptr) {
    WEFT_ASSIGN(const std::string address, addresses_.address_of(rank, config_.deadline_ms));
    WEFT_ASSIGN(found, connect(rank, address));
  }
  if (!found->are_rails_chosen) WEFT_RETURN_IF_ERROR(rails_.choose_to(*found));
  if (!found->are_rails_chosen) return found;
  return recent_[static_cast<std::size_t>(rank) % recent_.size()] = found;
}

PeerConnection* Peers::known(Rank rank) const {
  const auto found = connections_.find(rank);
  return found == connections_.end() ? nullptr : found->second.get();
}

Result<PeerConnection*> Peers::connected(Rank rank) {
  if (PeerConnection* const found = known(rank)) return found;
  WEFT_ASSIGN(const std::string address, addresses_.address_of_joined(rank));
  return connect(rank, address);
}

Result<PeerConnection*> Peers::connect(Rank rank, const std::string& address) {
  WEFT_ASSIGN(Endpoint * endpoint, interface_.connect(rank, address));
  if (endpoint->properties().shares_memory && config_.private_memory == PrivatePath::cma)
    WEFT_RETURN_IF_ERROR(endpoint->properties().process_access);
  auto made = std::make_unique<PeerConnection>();
  made->rank = rank;
  made->endpoint = endpoint;
  PeerConnection* raw = made.get();
  {
    const std::lock_guard lock(mutex_);
    connections_.emplace(rank, std::move(made));
  }
  WEFT_RETURN_IF_ERROR(watch(*raw, address));
  return raw;
}

// If the peer is another process of this machine, makes membership_ notice the end of that process
// at once.
Status Peers::watch(const PeerConnection& connection, std::string_view address) {
  if (watching_ == Watching::others_do || !connection.endpoint->properties().shares_memory)
    return {};
  WEFT_ASSIGN(const std::shared_ptr<const PeerHeap> heap, heap_behind(address));
  if (heap->is_own()) return {};
  // Without a watch, the store still reports the end of that process, only later.
  const Status status = membership_.watch(connection.rank, heap->life(), heap->process());
  if (!status.ok()) log(LogLevel::warning, status.to_string());
  return {};
}

Status Peers::connections(std::span<const Rank> ranks, std::vector<PeerConnection*>& into) {
  for (const Rank rank : ranks) {
    WEFT_ASSIGN(PeerConnection * found, connection(rank));
    into.push_back(found);
  }
  return {};
}

void Peers::choose_rails() {
  for (const std::string& line : rails_.describe()) log(LogLevel::info, line);
  for (const auto& [rank, connection] : connections_) rails_.choose_late(*connection);
}

bool Peers::has_left(Rank rank) {
  const std::lock_guard lock(mutex_);
  const auto known = connections_.find(rank);
  return known != connections_.end() && known->second->endpoint->peer_closed();
}

std::uint64_t Peers::network_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [rank, connection] : connections_) {
    if (!connection->endpoint->properties().shares_memory) bytes += connection->sent_bytes;
  }
  return bytes;
}

std::string Peers::describe_paths(const Call& call) const {
  std::map<Rank, const PeerConnection*> peers;
  for (const PeerConnection* connection : call.in) peers.emplace(connection->rank, connection);
  for (const PeerConnection* connection : call.out) peers.emplace(connection->rank, connection);
  std::string text;
  for (const auto& [rank, connection] : peers) {
    const std::string gpus = describe_gpu_path(*connection);
    text += fmt::format("  rank {}: {}{}{}\n", rank, connection->endpoint->describe(),
                        gpus.empty() ? "" : "; ", gpus);
  }
  return text;
}

}  // namespace weft
