// Connecting: checking a peer's address, finding or making the endpoint to its interface, connecting
// to strangers, which are peers that spoke first, and putting a new endpoint in the place of one
// that failed. No step waits for the peer.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/ucx/interface.h"

namespace weft::ucx {
namespace {

// Checks a peer's address and returns its fixed part. UCX's worker address follows it in `bytes`.
Result<Address> decode(std::string_view bytes, Rank peer) {
  const auto wrong = [&](std::string_view what) {
    return Status(Code::mismatch, fmt::format("rank {}'s ucx address {}", peer, what), peer);
  };
  Address address;
  if (bytes.size() < sizeof address) {
    return wrong(fmt::format("has {} bytes instead of {} or more: another version of Weft?",
                             bytes.size(), sizeof address));
  }
  std::memcpy(&address, bytes.data(), sizeof address);
  if (address.magic != Address::kMagic) return wrong("is none");
  if (address.wire_version != kWireVersion) {
    return Status(Code::mismatch,
                  fmt::format("rank {} speaks wire version {}, this rank {}", peer,
                              address.wire_version, kWireVersion),
                  peer);
  }
  if (address.worker_bytes != bytes.size() - sizeof address ||
      address.checksum != checksum(address, bytes.substr(sizeof address))) {
    return wrong("is damaged");
  }
  if (address.rank != static_cast<std::uint32_t>(peer))
    return wrong(fmt::format("is that of rank {}", address.rank));
  return address;
}

}  // namespace

std::uint64_t checksum(Address address, std::string_view worker) {
  address.checksum = 0;
  return weft::checksum({{reinterpret_cast<const char*>(&address), sizeof address}, worker});
}

Result<Endpoint*> UcxInterface::connect(Rank peer, std::string_view bytes) {
  WEFT_ASSIGN(const Address address, decode(bytes, peer));
  WEFT_RETURN_IF_ERROR(check_agreed(agreed_options(address), agreed_options(fields_), peer));
  auto& known = known_[address.nonce];
  const bool stranger = known != nullptr;
  if (stranger && known->connected()) return known.get();
  auto endpoint =
      stranger ? std::move(known) : std::make_unique<UcxEndpoint>(*this, peer, address.nonce);
  const Status opened = endpoint->open(bytes.substr(sizeof address));
  if (!opened.ok() && !stranger) known_.erase(address.nonce);
  if (!opened.ok() && stranger) known = std::move(endpoint);
  WEFT_RETURN_IF_ERROR(opened);
  known = std::move(endpoint);
  if (stranger) --strangers_;
  // attention() may have dropped this stranger from its queue while the stranger's address was not
  // known. So it is queued again.
  if (known->front(kControlChannel).header != nullptr) ask_attention(*known);
  return known.get();
}

// If the peer was the first to connect anew, the endpoint exists already. TCP connections outlive
// the cable: what was on its way comes when the cable is back. Therefore the new endpoint goes on
// with the connection, and the peer knows its messages by their incarnation. A connection that UCX
// has given up, or that had to be closed, is not made again.
Result<Endpoint*> UcxInterface::reconnect(Rank peer, std::string_view bytes) {
  WEFT_ASSIGN(const Address address, decode(bytes, peer));
  drop_forgotten();
  const auto found = known_.find(address.nonce);
  if (found == known_.end() || found->second->failure().ok()) return connect(peer, bytes);
  if (!found->second->may_be_followed()) {
    return Status(Code::unavailable,
                  fmt::format("{} does not connect to rank {} again: UCX's connection has ended",
                              name_, peer),
                  peer);
  }
  replace(found->second, static_cast<std::uint16_t>(found->second->incarnation() + 1));
  return connect(peer, bytes);
}

// A stranger was seen by nobody.
void UcxInterface::replace(std::unique_ptr<UcxEndpoint>& known, std::uint16_t incarnation) {
  auto next = std::make_unique<UcxEndpoint>(*this, known->peer(), known->nonce(), incarnation);
  next->follow(*known);
  if (!known->connected()) known->be_forgotten();
  strangers_ += known->connected() ? 1 : 0;
  last_sender_ = nullptr;
  replaced_.push_back(std::exchange(known, std::move(next)));
}

// Forgets the endpoint and all earlier ones to the same interface: the caller may have been offered
// some that it never took. An endpoint that was not followed stays known, so that late messages for
// it make no stranger.
void UcxInterface::forget(Endpoint& failed) {
  const auto& gone = static_cast<const UcxEndpoint&>(failed);
  for (const auto& old : replaced_) {
    if (old->nonce() == gone.nonce()) old->be_forgotten();
  }
  drop_forgotten();
}

void UcxInterface::drop_forgotten() {
  std::erase_if(replaced_, [this](const auto& old) {
    if (!old->may_go()) return false;
    unlist(old.get());
    old->give_back_all();
    return true;
  });
}

void UcxInterface::unlist(UcxEndpoint* endpoint) {
  for (auto* list :
       {&filled_, &reporters_, &failing_, &unanswered_, &at_work_, &stalled_, &greeters_})
    std::erase(*list, endpoint);
  std::erase(askers_, endpoint);
}

// An asker is passed over if its notice was released in the meantime, or if its rank has another
// interface by now.
Result<Endpoint*> UcxInterface::attention() {
  while (!askers_.empty()) {
    UcxEndpoint* asker = askers_.front();
    askers_.pop_front();
    if (asker->front(kControlChannel).header == nullptr) continue;
    if (asker->connected()) return asker;
    const Result<std::string> address = resolver_(asker->peer());
    if (!address.ok()) {
      askers_.push_back(asker);  // it is served in a later turn
      return address.status();
    }
    WEFT_RETURN_IF_ERROR(connect(asker->peer(), *address).status());
  }
  return nullptr;
}

void UcxInterface::answer_later(UcxEndpoint& stranger) {
  if (std::find(unanswered_.begin(), unanswered_.end(), &stranger) == unanswered_.end())
    unanswered_.push_back(&stranger);
}

// Connects to the strangers that wait for an answer. This runs outside of UCX's callbacks, because
// a callback must not connect.
void UcxInterface::answer_strangers() {
  for (UcxEndpoint* stranger : std::exchange(unanswered_, {})) connect_stranger(*stranger);
}

// If this interface is closed already, the stranger gets a goodbye as soon as it is connected.
void UcxInterface::connect_stranger(UcxEndpoint& stranger) {
  if (stranger.connected() || stranger.hello().empty()) return;
  const Status status = connect(stranger.peer(), std::string(stranger.hello())).status();
  if (!status.ok()) {
    stranger.forget_hello();
    return warn_once(status);
  }
  if (closed_) stranger.say_goodbye();
}

}  // namespace weft::ucx
