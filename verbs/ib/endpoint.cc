// An endpoint: its parts put together, its life, and its end.
#include "verbs/ib/endpoint.h"

#include <fmt/core.h>

#include <algorithm>

#include "verbs/ib/interface.h"

namespace weft::ib {

namespace {

const Status& no_access() {
  // Never destroyed: a static context may be the last that uses it.
  static const Status& none = *new Status(
      Code::unavailable, "over RDMA no rank reads memory of another that is not registered");
  return none;
}

}  // namespace

IbEndpoint::IbEndpoint(IbInterface& interface, Rank peer, std::uint64_t nonce,
                       std::uint32_t incarnation)
    : Endpoint({.peer = peer, .process_access = no_access()}, false),
      interface_(interface),
      nonce_(nonce),
      incarnation_(incarnation),
      conversation_(*this, interface.nonce(), nonce),
      queues_(*this),
      receiver_(*this),
      sender_(*this),
      works_(*this) {}

IbEndpoint::~IbEndpoint() {
  fail(Status(Code::closed, "its endpoint is gone"));
}

Posted IbEndpoint::post(std::uint32_t channel, const WireHeader& header,
                        std::span<const std::byte> payload, Payload how) {
  const bool is_piece =
      how == Payload::lent && payload.size() > interface_.most_payload(RingKind::notices);
  return sender_.post(channel, header, payload, is_piece ? RingKind::pieces : RingKind::notices);
}

// A large region of the host is registered in chunks by several threads. If this fails, each piece
// is registered when it is posted, and the failure is reported then.
Status IbEndpoint::expect_pieces(std::span<const std::byte> memory, PieceMemory where) {
  if (where == PieceMemory::host) {
    if (failure_.ok() && !memory.empty())
      (void)interface_.registrations().prepare(memory.data(), memory.size());
    return {};
  }
  WEFT_RETURN_IF_ERROR(failure_);
  if (interface_.is_host(memory.data()))
    return Status(Code::unavailable, "GPU memory is not sent from where it is");
  return interface_.registered(memory).status();
}

Status IbEndpoint::copy_payload(std::span<std::byte> to, const Notice& notice) {
  const auto& copy = interface_.ib().device_memory.copy;
  return is_in_device_memory(notice) ? copy(to, notice.payload)
                                     : Endpoint::copy_payload(to, notice);
}

void IbEndpoint::pump() {
  if (!connected_ || !failure_.ok()) return;
  sender_.pump();
  if (works_.waits_to_go()) works_.pump();
}

bool IbEndpoint::starved() {
  if (!failure_.ok() || !connected_ || sender_.has_window()) return false;
  sender_.look_at_window();
  return waits_to_go() && !sender_.has_window();
}

void IbEndpoint::retire(std::size_t q, std::uint64_t number) {
  if (queues_.retire(q, number) && waits_to_go()) interface_.pump_later(*this);
}

void IbEndpoint::say_goodbye() {
  if (failure_.ok() && connected_ && !peer_closed()) sender_.say_goodbye();
}

// A peer sends over the queue pairs only after it was confirmed. So a message confirms this end,
// too, even if that datagram was lost.
void IbEndpoint::count_received() {
  if (!connected_) [[unlikely]]
    conversation_.confirm();
  receiver_.count_received();
  if (receiver_.owes_received()) interface_.pump_later(*this);
}

bool IbEndpoint::take_control(const Control& control) {
  if (control.version != kWireVersion) return false;
  sender_.take_received(control.received);
  switch (control.kind) {
    case ControlKind::releases:
      if (control.count > Control::kReleases) return false;
      for (std::size_t r = 0; r < control.count; ++r) {
        if (!sender_.has_channel(control.releases[r].channel)) return false;
        sender_.take_released(control.releases[r].channel, control.releases[r].released);
      }
      return true;
    case ControlKind::goodbye:
      peer_closed_.store(true, std::memory_order_release);
      receiver_.give_back();  // what it sent has arrived
      return true;
    case ControlKind::want:
      return receiver_.grant(control);
    case ControlKind::grant:
      return sender_.take_grant(control);
    case ControlKind::expose:
      sender_.say(interface_.expose(control.chunk));
      return true;
    case ControlKind::exposed:
      return works_.take_exposed(control);
  }
  return false;
}

void IbEndpoint::broke(const ibv_wc& completion) {
  if (!failure_.ok()) return;
  fail(completion_error(interface_.library(), completion, {path(), peer()}));
}

// Ends the queue pairs: the device touches no memory of the caller any more, and nothing arrives.
// Resetting them is enough for that; destroying them may take longer
// (IbInterface::destroy_later()).
void IbEndpoint::fail(const Status& why) {
  if (!failure_.ok()) return;
  failure_ =
      peer_closed() ? Status(Code::peer_left, path() + ": it closed its interface", peer()) : why;
  works_.flush(failure_);
  receiver_.give_back();
  queues_.end();
  if (conversation_.pair().gid_index >= 0) interface_.routes().mistrust(conversation_.pair().peer);
  sender_.end();
}

std::string IbEndpoint::describe() const {
  std::string text = path();
  if (const std::string memory = interface_.memory_exceptions(); !memory.empty())
    text += "; memory: " + memory;
  if (const std::string receive_buffers = receiver_.receive_buffers(); !receive_buffers.empty())
    text += "; " + receive_buffers;
  return text;
}

std::string IbEndpoint::path() const {
  const RoutePair& pair = conversation_.pair();
  const std::string to = fmt::format("{} to rank {}", interface_.name(), peer());
  if (pair.gid_index < 0) return to + " (not connected yet)";
  const auto local = std::ranges::find_if(interface_.gids(), [&pair](const RdmaGid& gid) {
    return gid.index == pair.gid_index && gid.bytes == pair.own;
  });
  const auto remote = std::ranges::find_if(peer_gids_, [&pair](const WireGid& gid) {
    return gid.bytes == pair.peer && static_cast<GidKind>(gid.kind) == pair.kind;
  });
  std::string reason;
  if (local != interface_.gids().end() && remote != peer_gids_.end()) {
    reason = ": " + relation_of(*local, {remote->bytes, static_cast<GidKind>(remote->kind),
                                         remote->prefix_bits});
  }
  return fmt::format("{} (GID {}, {} to {}{}{})", to, pair.gid_index, ip_of(pair.own),
                     ip_of(pair.peer), reason, connected_ ? "" : "; not connected yet");
}

}  // namespace weft::ib
