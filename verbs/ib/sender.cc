// The sending side of the data path. What is posted is copied into our image of the peer's ring at
// once; it is handed to the device at the next turn, many work requests with one doorbell.
#include "verbs/ib/sender.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "verbs/ib/endpoint.h"
#include "verbs/ib/interface.h"

namespace weft::ib {

Sender::Sender(IbEndpoint& endpoint)
    : endpoint_(endpoint),
      interface_(endpoint.interface()),
      queues_(endpoint.queues()),
      control_numbers_(Scratch::kControls),
      outgoing_(interface_.options().channels) {}

void Sender::set_peer(const Greeting& greeting) {
  window_ = greeting.window;
  words_ = greeting.words;
  words_key_ = greeting.words_key;
}

// If the copy of a ring cannot be made, the path ends with the reason, because a later attempt
// would fail, too.
Posted Sender::post(std::uint32_t channel, const WireHeader& header,
                    std::span<const std::byte> payload, RingKind ring) {
  if (interface_.closed() || !endpoint_.failure().ok()) [[unlikely]]
    return Posted::full;
  Outgoing& out = outgoing_[channel];
  const std::uint32_t slots = interface_.options().slots;
  if (out.posted - released(channel) == slots) return Posted::full;
  Sent sent;
  sent.ring = ring;
  sent.bytes = static_cast<std::uint32_t>(payload.size());
  const bool lent = ring == RingKind::pieces && lend(payload, sent);
  const RingKind from = lent ? RingKind::notices : ring;
  Buffer& copy = out.local[static_cast<std::size_t>(from)];
  if (!copy) [[unlikely]] {
    if (const Status made = make_copy(out, from); !made.ok()) {
      endpoint_.fail(made);
      return Posted::full;
    }
  }
  const std::size_t place = out.posted & (slots - 1);
  std::byte* slot = copy.data() + place * interface_.slot_bytes(from);
  std::memcpy(slot + kHeaderAt, &header, sizeof header);
  if (!lent && !payload.empty()) {
    if (const Status copied = copy_in(slot + kPayloadAt, payload); !copied.ok()) {
      endpoint_.fail(copied);
      return Posted::full;
    }
  }
  out.slots[place] = std::move(sent);
  ++out.posted;
  wait_to_go(channel);
  if (interface_.armed()) endpoint_.pump();
  return Posted::posted;
}

Status Sender::copy_in(std::byte* to, std::span<const std::byte> payload) {
  if (!interface_.is_host(payload.data()))
    return interface_.ib().device_memory.copy({to, payload.size()}, payload.data());
  std::memcpy(to, payload.data(), payload.size());
  return {};
}

// Sends the payload from where it is, if that memory can be registered. Otherwise it is copied, and
// a warning says why once. Host memory whose registration would not be kept is copied too:
// registering it for one piece costs more. Memory of another device is never kept, and the
// processor cannot copy it.
bool Sender::lend(std::span<const std::byte> payload, Sent& sent) {
  const bool kept = interface_.registrations().keeps(payload.data(), payload.size());
  if (!kept && interface_.is_host(payload.data())) return false;
  Result<Registrations::Use> use = interface_.registered(payload);
  if (!use.ok()) {
    interface_.warn_once(use.status());
    return false;
  }
  sent.lent = payload.data();
  sent.is_of_device = !interface_.is_host(payload.data());
  sent.use = std::move(use).value();
  return true;
}

Status Sender::make_copy(Outgoing& out, RingKind ring) {
  const std::uint32_t slots = interface_.options().slots;
  if (out.slots == nullptr) out.slots = std::make_unique<Sent[]>(slots);
  WEFT_ASSIGN(out.local[static_cast<std::size_t>(ring)],
              interface_.make_buffer(slots * interface_.slot_bytes(ring), 0));
  return {};
}

void Sender::wait_to_go(std::uint32_t channel) {
  Outgoing& out = outgoing_[channel];
  if (!std::exchange(out.waiting, true)) waiting_.push_back(channel);
  interface_.pump_later(endpoint_);
}

// What cannot go now waits for an answer of the peer, for a completion, or for a place in the
// peer's receive queue (starved()). Each of these leads to another pump().
void Sender::pump() {
  if (endpoint_.receiver().owes_received()) report_received();
  if (!waiting_.empty()) pump_channels();
  if (!controls_.empty()) pump_controls();
}

void Sender::pump_channels() {
  PostList list;
  for (std::size_t q = 0; q < queues_.size() && endpoint_.failure().ok(); ++q) {
    for (const std::uint32_t channel : waiting_) {
      if (queues_.of_channel(channel) == q) pump_channel(channel, list);
    }
    queues_.hand_over(q, list);
  }
  std::erase_if(waiting_, [this](std::uint32_t channel) {
    Outgoing& out = outgoing_[channel];
    out.waiting = out.sent != out.posted;
    return !out.waiting;
  });
}

void Sender::pump_channel(std::uint32_t channel, PostList& list) {
  Outgoing& out = outgoing_[channel];
  const std::size_t q = queues_.of_channel(channel);
  while (endpoint_.failure().ok() && out.sent != out.posted) {
    Sent& sent = out.slots[out.sent & (interface_.options().slots - 1)];
    if (!choose_ring(out, sent, channel)) return;
    const std::size_t requests = sent.ring == RingKind::device ? 2 : 1;
    if (list.count() + requests > PostList::kMost) queues_.hand_over(q, list);
    if (!endpoint_.failure().ok() || !queues_.has_room(q, list.count() + requests) || !has_window())
      return;
    write_notice(out, channel, list);
  }
}

bool Sender::is_granted(Remote& remote, std::uint32_t channel, RingKind ring) {
  if (remote.state == Remote::State::unknown) ask_for_ring(remote, channel, ring);
  return remote.state == Remote::State::granted;
}

// Whether the rings that the notice needs are there. What comes from another device goes to one, if the
// peer has such memory for it: then the head goes to the ring of notices.
bool Sender::choose_ring(Outgoing& out, Sent& sent, std::uint32_t channel) {
  constexpr std::uint32_t kPatience = 64;
  Remote& device = out.remote[static_cast<std::size_t>(RingKind::device)];
  if (sent.is_of_device && sent.ring == RingKind::pieces) {
    if (device.state == Remote::State::refused && device.until_asked-- == 0)
      device.state = Remote::State::unknown;
    if (device.state != Remote::State::refused) {
      if (is_granted(device, channel, RingKind::device)) sent.ring = RingKind::device;
      if (device.state == Remote::State::asked) {
        device.until_asked = kPatience;
        return false;
      }
    }
  }
  const RingKind head = sent.ring == RingKind::device ? RingKind::notices : sent.ring;
  return is_granted(out.remote[static_cast<std::size_t>(head)], channel, head);
}

void Sender::ask_for_ring(Remote& remote, std::uint32_t channel, RingKind ring) {
  Control want;
  want.kind = ControlKind::want;
  want.ring = ring;
  want.channel = channel;
  say(want);
  remote.state = Remote::State::asked;
}

// Writes how many messages we have taken from the peer to the place where the peer looks when it
// lacks places (Words). It is a write without a message, so that it gets through even if both sides
// wait for places.
void Sender::report_received() {
  if (!queues_.has_room(0, 1)) return;
  std::uint32_t& received = endpoint_.scratch().received;
  received = endpoint_.receiver().received();
  PostList list;
  ibv_send_wr& request = list.add();
  list.part(request, &received, sizeof received, endpoint_.scratch_key());
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = words_ + offsetof(Words, received);
  request.wr.rdma.rkey = words_key_;
  queues_.finish(0, request, sizeof received, false);
  endpoint_.receiver().told_received();
  queues_.hand_over(0, list);
}

void Sender::write_notice(Outgoing& out, std::uint32_t channel, PostList& list) {
  const std::size_t place = out.sent & (interface_.options().slots - 1);
  Sent& sent = out.slots[place];
  const RingKind from = sent.lent != nullptr ? RingKind::notices : sent.ring;
  const Buffer& copy = out.local[static_cast<std::size_t>(from)];
  std::byte* head = copy.data() + place * interface_.slot_bytes(from) + kPrefixAt;
  const bool is_apart = sent.ring == RingKind::device;
  if (is_apart) {
    write_payload(out, sent, channel, place, list);
    auto* const header = reinterpret_cast<WireHeader*>(head - kPrefixAt + kHeaderAt);
    header->flags |= kFlagDeviceMemory;
  }
  const Prefix prefix{static_cast<std::uint32_t>(out.sent), sent.bytes,
                      endpoint_.receiver().tell_released(channel), endpoint_.receiver().received()};
  std::memcpy(head, &prefix, sizeof prefix);
  ibv_send_wr& request = list.add();
  const std::size_t bytes = kHeadBytes + (is_apart ? 0 : sent.bytes);
  const bool lent = sent.lent != nullptr && !is_apart;
  list.part(request, head, lent ? kHeadBytes : bytes, copy.lkey());
  if (lent) list.part(request, sent.lent, sent.bytes, sent.use->lkey());
  const RingKind into = is_apart ? RingKind::notices : sent.ring;
  const Remote& remote = out.remote[static_cast<std::size_t>(into)];
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = htonl(encode({sent.ring, channel, static_cast<std::uint32_t>(place)}));
  request.wr.rdma.remote_addr = remote.address + place * interface_.slot_bytes(into) + kPrefixAt;
  request.wr.rdma.rkey = remote.key;
  const std::size_t q = queues_.of_channel(channel);
  queues_.finish(q, request, bytes, sent.ring != RingKind::notices);
  if (lent && !interface_.is_host(sent.lent)) request.send_flags &= ~unsigned{IBV_SEND_INLINE};
  sent.number = queues_[q].posted;
  ++out.sent;
  ++messages_;
}

// Before the head on the same queue pair, so that it is there when the head is.
void Sender::write_payload(const Outgoing& out, const Sent& sent, std::uint32_t channel,
                           std::size_t place, PostList& list) {
  const Remote& remote = out.remote[static_cast<std::size_t>(RingKind::device)];
  ibv_send_wr& request = list.add();
  list.part(request, sent.lent, sent.bytes, sent.use->lkey());
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = remote.address + place * interface_.slot_bytes(RingKind::device);
  request.wr.rdma.rkey = remote.key;
  queues_.finish(queues_.of_channel(channel), request, sent.bytes, false);
  request.send_flags &= ~unsigned{IBV_SEND_INLINE};
}

void Sender::say(const Control& control) {
  controls_.push() = control;
  interface_.pump_later(endpoint_);
}

// A control that does not fit into its work request is sent from a place of Scratch::said. It has
// that place for itself until its completion has come.
void Sender::pump_controls() {
  PostList list;
  while (endpoint_.failure().ok() && !controls_.empty()) {
    const std::size_t place = controls_sent_ % Scratch::kControls;
    if (list.full()) queues_.hand_over(0, list);
    if (!endpoint_.failure().ok() || !queues_.has_room(0, list.count() + 1) || !has_window() ||
        control_numbers_[place] > queues_[0].retired)
      break;
    Control& control = endpoint_.scratch().said[place];
    control = controls_.front();
    controls_.pop();
    control.received = endpoint_.receiver().received();
    ibv_send_wr& request = list.add();
    list.part(request, &control, sizeof control, endpoint_.scratch_key());
    request.opcode = IBV_WR_SEND;
    queues_.finish(0, request, sizeof control, true);
    control_numbers_[place] = queues_[0].posted;
    ++controls_sent_;
    ++messages_;
  }
  queues_.hand_over(0, list);
}

void Sender::take_released(std::uint32_t channel, std::uint32_t released) {
  Outgoing& out = outgoing_[channel];
  const std::uint32_t more = released - static_cast<std::uint32_t>(out.released);
  // Queue pairs are not ordered among each other. So a count that is lower than an earlier one is
  // no error, and is ignored.
  if (more <= out.sent - out.released) out.released += more;
}

void Sender::take_received(std::uint32_t received) {
  if (received - peer_received_ <= messages_ - peer_received_) peer_received_ = received;
}

// A release may come before the completion of the notice that was released; its memory is in use
// until then.
std::uint64_t Sender::released(std::uint32_t channel) {
  const Outgoing& out = outgoing_[channel];
  return interface_.closed() ? out.posted : std::min(out.released, locally_completed(channel));
}

// Small notices were copied, and complete locally at once. Pieces, copied ones too, complete
// locally when the device has sent them, or when the path has failed. By this a bond sees which
// rail is behind.
std::uint64_t Sender::locally_completed(std::uint32_t channel) {
  Outgoing& out = outgoing_[channel];
  const Queue& queue = queues_[queues_.of_channel(channel)];
  for (; out.locally_completed < out.posted; ++out.locally_completed) {
    Sent& sent = out.slots[out.locally_completed & (interface_.options().slots - 1)];
    const bool sending =
        sent.ring != RingKind::notices && (sent.number == 0 || sent.number > queue.retired);
    if (sending && endpoint_.failure().ok()) break;
    sent.use.reset();
  }
  return out.locally_completed;
}

// Posts the last request on every queue pair. Its completion says that all before has arrived.
void Sender::say_goodbye() {
  if (!endpoint_.failure().ok() || !endpoint_.connected() || endpoint_.peer_closed()) return;
  PostList list;
  for (std::size_t q = 1; q < queues_.size(); ++q) {
    if (!queues_.has_room(q, 1)) continue;  // it stands still
    ibv_send_wr& request = list.add();
    request.opcode = IBV_WR_RDMA_WRITE;
    request.wr.rdma.remote_addr = words_;
    request.wr.rdma.rkey = words_key_;
    queues_.finish(q, request, 0, true);
    queues_.hand_over(q, list);
  }
  Control goodbye;
  goodbye.kind = ControlKind::goodbye;
  say(goodbye);
}

// The peer writes this word when we may wait for places, and it sends no message with it.
void Sender::look_at_window() {
  std::uint32_t& word = endpoint_.scratch().words.received;
  take_received(std::atomic_ref<std::uint32_t>(word).load(std::memory_order_acquire));
}

void Sender::end() {
  for (Outgoing& out : outgoing_) {
    for (std::uint32_t s = 0; out.slots != nullptr && s < interface_.options().slots; ++s)
      out.slots[s].use.reset();
    out.local = {};
  }
}

bool Sender::take_grant(const Control& grant) {
  const auto ring = static_cast<std::size_t>(grant.ring);
  if (grant.channel >= outgoing_.size() || ring >= kRings) return false;
  Remote& remote = outgoing_[grant.channel].remote[ring];
  if (remote.state != Remote::State::asked) return false;
  if (grant.address == 0 && grant.ring == RingKind::device) {
    remote.state = Remote::State::refused;
    interface_.pump_later(endpoint_);
    return true;
  }
  if (grant.address == 0) {
    endpoint_.fail(Status(Code::exhausted,
                          endpoint_.path() + ": the peer has no memory that it can register for it",
                          endpoint_.peer()));
    return true;
  }
  remote = {Remote::State::granted, 0, grant.key, grant.address};
  interface_.pump_later(endpoint_);
  return true;
}

}  // namespace weft::ib
