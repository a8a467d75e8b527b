// Connecting: checking a peer's address, finding or making the endpoint to its interface, and
// connecting to strangers, which are peers that spoke first. No step waits for the peer.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/ucx/interface.h"

namespace weft::ucx {
namespace {

// File descriptors that must be free before an endpoint is made. UCX 1.13 aborts the process if an
// endpoint cannot open its socket, or a second socket that it uses for a moment to query the
// kernel. The other descriptors are a reserve for connections of other peers, which UCX's thread
// may accept meanwhile.
constexpr int kEndpointDescriptors = 8;

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

// One-sided work of the peer may have come before this end was connected. Its answers leave here,
// right after the hello.
Status UcxEndpoint::open(std::string_view worker_address) {
  WEFT_RETURN_IF_ERROR(
      check_descriptors(fmt::format("connecting to rank {} over {}", peer_, interface_.name()),
                        kEndpointDescriptors));
  ucp_ep_params_t how{};
  how.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                   UCP_EP_PARAM_FIELD_ERR_HANDLER;
  how.address = reinterpret_cast<const ucp_address_t*>(worker_address.data());
  how.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  how.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t status) {
    static_cast<UcxEndpoint*>(self)->broke(status);
  };
  how.err_handler.arg = this;
  (void)take_words();  // discards what UCX logged before
  const ucs_status_t status = library_.ep_create(interface_.worker(), &how, &native_);
  if (status != UCS_OK) {
    native_ = nullptr;
    return ucx_error(fmt::format("connecting to rank {} over {}", peer_, interface_.name()), status,
                     peer_);
  }
  connected_ = true;
  greeting_ = message(MessageKind::hello, kControlChannel, 0);
  const std::string_view own = interface_.own_address();
  send(&greeting_, sizeof greeting_, std::as_bytes(std::span(own)), UCP_AM_SEND_FLAG_EAGER,
       greeting_pending_);
  if (owes_answers()) send_answers();
  return {};
}

UcxEndpoint::UcxEndpoint(UcxInterface& interface, Rank peer, std::uint64_t nonce)
    : interface_(interface),
      library_(interface.library()),
      peer_(peer),
      nonce_(nonce),
      outgoing_(interface.options().channels),
      incoming_(interface.options().channels),
      order_(interface.completions()) {
  interface.count_bytes(interface.options().channels * (sizeof(Outgoing) + sizeof(Incoming)));
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
