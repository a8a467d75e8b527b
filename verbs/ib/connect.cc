// Connecting at the interface: checking a peer's address, finding or making the endpoint to its
// interface, and letting go of one that failed. No step waits for the peer.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/ib/interface.h"

namespace weft::ib {
namespace {

Result<Address> decode(std::string_view bytes, Rank peer) {
  const auto wrong = [&](std::string_view what) {
    return Status(Code::mismatch, fmt::format("rank {}'s ib address {}", peer, what), peer);
  };
  Address address;
  if (bytes.size() != sizeof address) {
    return wrong(fmt::format("has {} bytes instead of {}: another version of Weft?", bytes.size(),
                             sizeof address));
  }
  std::memcpy(&address, bytes.data(), sizeof address);
  if (address.magic != Address::kMagic) return wrong("is none");
  if (address.wire_version != kWireVersion) {
    return Status(Code::mismatch,
                  fmt::format("rank {} speaks wire version {}, this rank {}", peer,
                              address.wire_version, kWireVersion),
                  peer);
  }
  if (address.checksum != checksum(address) || address.gid_count > kMostGids)
    return wrong("is damaged");
  if (address.rank != static_cast<std::uint32_t>(peer))
    return wrong(fmt::format("is that of rank {}", address.rank));
  return address;
}

Status check(const Address& theirs, const Address& ours, Rank peer) {
  WEFT_RETURN_IF_ERROR(check_agreed(agreed_options(theirs), agreed_options(ours), peer));
  if (theirs.queue_pairs == ours.queue_pairs) return {};
  return differ(peer, "WEFT_IB_QUEUE_PAIRS", theirs.queue_pairs, ours.queue_pairs);
}

}  // namespace

std::uint64_t checksum(Address address) {
  address.checksum = 0;
  return weft::checksum({{reinterpret_cast<const char*>(&address), sizeof address}});
}

Result<Endpoint*> IbInterface::connect(Rank peer, std::string_view bytes) {
  WEFT_ASSIGN(const Address address, decode(bytes, peer));
  WEFT_RETURN_IF_ERROR(check(address, fields_, peer));
  const auto found = known_.find(address.nonce);
  if (found != known_.end() && found->second->given_out()) return found->second.get();
  if (found != known_.end()) {
    if (found->second->peer() != peer) {
      return Status(
          Code::mismatch,
          fmt::format("rank {}'s ib address spoke for rank {}", peer, found->second->peer()), peer);
    }
    --strangers_;
    found->second->set_peer_gids(address);
    found->second->give_out();
    // attention() may have dropped this stranger from its queue while the stranger's address was
    // not known. So it is queued again.
    if (found->second->front(kControlChannel).header != nullptr) ask_attention(*found->second);
    return found->second.get();
  }
  auto endpoint = std::make_unique<IbEndpoint>(*this, peer, address.nonce, 0);
  WEFT_RETURN_IF_ERROR(endpoint->prepare());
  WEFT_RETURN_IF_ERROR(endpoint->resolve_addresses(address));
  endpoint->give_out();
  IbEndpoint* raw = endpoint.get();
  known_.emplace(address.nonce, std::move(endpoint));
  connect_later(*raw);
  return raw;
}

Endpoint* IbInterface::heard_from(Rank peer, std::string_view bytes) {
  const Result<Address> address = decode(bytes, peer);
  if (!address.ok()) return nullptr;
  const auto found = known_.find(address->nonce);
  if (found == known_.end() || found->second->peer() != peer) return nullptr;
  IbEndpoint& endpoint = *found->second;
  if (!endpoint.failure().ok() || endpoint.front(kControlChannel).header == nullptr) return nullptr;
  return &endpoint;
}

// If the peer was the first to connect anew, the endpoint exists already.
Result<Endpoint*> IbInterface::reconnect(Rank peer, std::string_view bytes) {
  WEFT_ASSIGN(const Address address, decode(bytes, peer));
  const auto found = known_.find(address.nonce);
  if (found == known_.end() || found->second->failure().ok()) return connect(peer, bytes);
  WEFT_RETURN_IF_ERROR(check(address, fields_, peer));
  auto endpoint =
      std::make_unique<IbEndpoint>(*this, peer, address.nonce, found->second->incarnation() + 1);
  WEFT_RETURN_IF_ERROR(endpoint->prepare());
  WEFT_RETURN_IF_ERROR(endpoint->resolve_addresses(address));
  endpoint->prefer_pair_of(*found->second);
  endpoint->give_out();
  replace(address.nonce);
  IbEndpoint* raw = endpoint.get();
  known_[address.nonce] = std::move(endpoint);
  connect_later(*raw);
  return raw;
}

void IbInterface::unlist(IbEndpoint* endpoint) {
  for (auto* list : {&connecting_, &pumping_, &starved_, &blocked_, &reporters_})
    std::erase(*list, endpoint);
  std::erase(askers_, endpoint);
}

void IbInterface::replace(std::uint64_t nonce) {
  std::unique_ptr<IbEndpoint>& known = known_[nonce];
  unlist(known.get());
  if (known->given_out()) return replaced_.push_back(std::move(known));
  --strangers_;
  known.reset();  // nobody has seen it
}

// Forgets the endpoint and all earlier ones to the same interface: the caller may have been offered
// some that it never took. An endpoint that was not connected again stays known, so that late
// greetings for it make no stranger.
void IbInterface::forget(Endpoint& failed) {
  auto& gone = static_cast<IbEndpoint&>(failed);
  if (const auto found = known_.find(gone.nonce());
      found != known_.end() && found->second.get() == &gone) {
    gone.be_forgotten();
    gone.say_dropped();
  }
  for (const auto& old : replaced_) {
    if (old->peer() == gone.peer() && old->nonce() == gone.nonce()) old->be_forgotten();
  }
  drop_forgotten();
}

void IbInterface::drop_forgotten() {
  for (const auto& old : replaced_) {
    if (old->may_go()) unlist(old.get());
  }
  std::erase_if(replaced_, [](const auto& old) { return old->may_go(); });
}

// An asker is passed over if its notice was released in the meantime, or if its rank has another
// interface by now.
Result<Endpoint*> IbInterface::attention() {
  while (!askers_.empty()) {
    IbEndpoint* asker = askers_.front();
    askers_.pop_front();
    if (asker->front(kControlChannel).header == nullptr) continue;
    if (asker->given_out()) return asker;
    const Result<std::string> address = resolver_(asker->peer());
    if (!address.ok()) {
      askers_.push_back(asker);  // it is served in a later turn
      return address.status();
    }
    WEFT_RETURN_IF_ERROR(connect(asker->peer(), *address).status());
  }
  return nullptr;
}

}  // namespace weft::ib
