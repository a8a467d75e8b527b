// The sending side of the data path: notices, pieces, and what needs no slot. What is posted is
// copied into our image of the peer's ring at once; it is handed to the device at the next turn,
// many work requests with one doorbell.
#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/ib/interface.h"

namespace weft::ib {
namespace {

// A completion of its own for every so many work requests: a quarter of the queue may wait for one.
constexpr std::uint32_t kSignalParts = 4;

}  // namespace

ibv_send_wr& PostList::add() {
  ibv_send_wr& request = requests_[count_];
  request = {};
  request.sg_list = parts_[count_].data();
  if (count_ != 0) requests_[count_ - 1].next = &request;
  ++count_;
  return request;
}

ibv_sge& PostList::part(ibv_send_wr& request, const void* data, std::size_t bytes,
                        std::uint32_t key) {
  ibv_sge& part = request.sg_list[request.num_sge++];
  part = {reinterpret_cast<std::uintptr_t>(data), static_cast<std::uint32_t>(bytes), key};
  return part;
}

Posted IbEndpoint::post_notice(std::uint32_t channel, const WireHeader& header,
                               std::span<const std::byte> payload) {
  return post(channel, header, payload, RingKind::notices);
}

Posted IbEndpoint::post_piece(std::uint32_t channel, const WireHeader& header,
                              std::span<const std::byte> payload) {
  const bool small = payload.size() <= interface_.most_payload(RingKind::notices);
  return post(channel, header, payload, small ? RingKind::notices : RingKind::pieces);
}

// In chunks by several threads where it is large. What was not registered here is tried again piece
// by piece, and told then.
void IbEndpoint::expect_pieces(std::span<const std::byte> memory) {
  if (!failure_.ok() || memory.empty()) return;
  (void)interface_.registrations().prepare(memory.data(), memory.size());
}

// A ring of ours that cannot be made ends the path with the reason: it will not be better later.
Posted IbEndpoint::post(std::uint32_t channel, const WireHeader& header,
                        std::span<const std::byte> payload, RingKind ring) {
  if (interface_.closed() || !failure_.ok()) [[unlikely]]
    return Posted::full;
  Outgoing& out = outgoing_[channel];
  const std::uint32_t slots = interface_.options().slots;
  if (out.posted - released(channel) == slots) return Posted::full;
  Sent sent{ring, static_cast<std::uint32_t>(payload.size()), nullptr, 0, std::nullopt};
  const bool lent = ring == RingKind::pieces && lend(payload, sent);
  const RingKind from = lent ? RingKind::notices : ring;
  Buffer& copy = out.local[static_cast<std::size_t>(from)];
  if (!copy) [[unlikely]] {
    if (const Status made = make_copy(out, from); !made.ok()) {
      fail(made);
      return Posted::full;
    }
  }
  const std::size_t place = out.posted & (slots - 1);
  std::byte* slot = copy.data() + place * interface_.slot_bytes(from);
  std::memcpy(slot + kHeaderAt, &header, sizeof header);
  if (!lent && !payload.empty()) {
    if (const Status copied = copy_in(slot + kPayloadAt, payload); !copied.ok()) {
      fail(copied);
      return Posted::full;
    }
  }
  out.slots[place] = std::move(sent);
  ++out.posted;
  wait_to_go(channel);
  if (interface_.armed()) pump();
  return Posted::posted;
}

Status IbEndpoint::copy_in(std::byte* to, std::span<const std::byte> payload) {
  if (!interface_.only_host_memory())
    return interface_.ib().device_memory.copy({to, payload.size()}, payload.data());
  std::memcpy(to, payload.data(), payload.size());
  return {};
}

// Sends the payload from where it is, if that can be registered; else it is copied, and once a
// warning says why. Host memory whose registration would not be kept is copied too: registering it
// for one piece costs more. Memory of another device is never kept, and the processor cannot copy it.
bool IbEndpoint::lend(std::span<const std::byte> payload, Sent& sent) {
  const bool kept = interface_.registrations().keeps(payload.data(), payload.size());
  if (!kept && interface_.only_host_memory()) return false;
  Result<Registrations::Use> use = interface_.registrations().find(payload.data(), payload.size());
  if (!use.ok()) {
    interface_.warn_once(use.status());
    return false;
  }
  sent.lent = payload.data();
  sent.use = std::move(use).value();
  return true;
}

Status IbEndpoint::make_copy(Outgoing& out, RingKind ring) {
  const std::uint32_t slots = interface_.options().slots;
  if (out.slots == nullptr) out.slots = std::make_unique<Sent[]>(slots);
  WEFT_ASSIGN(out.local[static_cast<std::size_t>(ring)],
              interface_.make_buffer(slots * interface_.slot_bytes(ring), 0));
  return {};
}

void IbEndpoint::wait_to_go(std::uint32_t channel) {
  Outgoing& out = outgoing_[channel];
  if (!std::exchange(out.waiting, true)) waiting_.push_back(channel);
  interface_.pump_later(*this);
}

// What cannot go now waits for an answer of the peer, for a completion, or for a place in the
// peer's receive queue (starved()); each of them brings us back.
void IbEndpoint::pump() {
  if (!peer_ready_ || !failure_.ok()) return;
  if (received_ - received_reported_ >= granted_ / 2) report_received();
  if (!waiting_.empty()) pump_channels();
  if (!controls_.empty()) pump_controls();
  if (works_ahead()) pump_works();
}

void IbEndpoint::pump_channels() {
  PostList list;
  for (std::size_t q = 0; q < queues_.size() && failure_.ok(); ++q) {
    for (const std::uint32_t channel : waiting_) {
      if (queue_of(channel) == q) pump_channel(channel, list);
    }
    hand_over(q, list);
  }
  std::erase_if(waiting_, [this](std::uint32_t channel) {
    Outgoing& out = outgoing_[channel];
    out.waiting = out.sent != out.posted;
    return !out.waiting;
  });
}

void IbEndpoint::pump_channel(std::uint32_t channel, PostList& list) {
  Outgoing& out = outgoing_[channel];
  const std::size_t q = queue_of(channel);
  while (failure_.ok() && out.sent != out.posted) {
    const Sent& sent = out.slots[out.sent & (interface_.options().slots - 1)];
    Remote& remote = out.remote[static_cast<std::size_t>(sent.ring)];
    if (remote.state == Remote::State::unknown) ask_for_ring(remote, channel, sent.ring);
    if (remote.state != Remote::State::granted) return;
    if (list.full()) hand_over(q, list);
    if (!failure_.ok() || !has_room(q, list.count() + 1) || !has_window()) return;
    write_notice(out, channel, list);
  }
}

void IbEndpoint::ask_for_ring(Remote& remote, std::uint32_t channel, RingKind ring) {
  Control want;
  want.kind = ControlKind::want;
  want.ring = ring;
  want.channel = channel;
  say(want);
  remote.state = Remote::State::asked;
}

// What we have taken from the peer, written to where it looks when it has no place left: without a
// message, so that it gets through although both sides wait for places.
void IbEndpoint::report_received() {
  if (!has_room(0, 1)) return;
  scratch().received = received_;
  PostList list;
  ibv_send_wr& request = list.add();
  list.part(request, &scratch().received, sizeof received_, scratch_.lkey());
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = words_ + offsetof(Words, received);
  request.wr.rdma.rkey = words_key_;
  finish(queues_[0], request, sizeof received_, false);
  received_reported_ = received_;
  hand_over(0, list);
}

void IbEndpoint::write_notice(Outgoing& out, std::uint32_t channel, PostList& list) {
  const std::size_t place = out.sent & (interface_.options().slots - 1);
  Sent& sent = out.slots[place];
  const RingKind from = sent.lent != nullptr ? RingKind::notices : sent.ring;
  const Buffer& copy = out.local[static_cast<std::size_t>(from)];
  std::byte* head = copy.data() + place * interface_.slot_bytes(from) + kPrefixAt;
  Incoming& in = incoming_[channel];
  const Prefix prefix{static_cast<std::uint32_t>(out.sent), sent.bytes,
                      static_cast<std::uint32_t>(in.next), received_};
  std::memcpy(head, &prefix, sizeof prefix);
  in.reported = in.next;
  ibv_send_wr& request = list.add();
  const std::size_t bytes = kHeadBytes + sent.bytes;
  const bool lent = sent.lent != nullptr;
  list.part(request, head, lent ? kHeadBytes : bytes, copy.lkey());
  if (lent) list.part(request, sent.lent, sent.bytes, sent.use->lkey());
  const Remote& remote = out.remote[static_cast<std::size_t>(sent.ring)];
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = htonl(encode({sent.ring, channel, static_cast<std::uint32_t>(place)}));
  request.wr.rdma.remote_addr =
      remote.address + place * interface_.slot_bytes(sent.ring) + kPrefixAt;
  request.wr.rdma.rkey = remote.key;
  Queue& queue = queues_[queue_of(channel)];
  finish(queue, request, bytes, sent.ring == RingKind::pieces);
  sent.number = queue.posted;
  ++out.sent;
  ++messages_;
}

// Numbers the request, decides what it carries in itself and whether it gets a completion.
void IbEndpoint::finish(Queue& queue, ibv_send_wr& request, std::size_t bytes, bool wanted) {
  request.wr_id = ++queue.posted;
  if (bytes <= interface_.inline_bytes() && request.opcode != IBV_WR_RDMA_READ &&
      request.opcode != IBV_WR_ATOMIC_CMP_AND_SWP)
    request.send_flags |= IBV_SEND_INLINE;
  if (++queue.unsignalled >= interface_.ib().send_depth / kSignalParts || wanted ||
      interface_.has_few_completions()) {
    request.send_flags |= IBV_SEND_SIGNALED;
    queue.unsignalled = 0;
  }
}

// A device that refuses ends the path.
void IbEndpoint::hand_over(std::size_t q, PostList& list) {
  if (list.count() == 0 || !failure_.ok()) return list.clear();
  ibv_send_wr* bad = nullptr;
  interface_.count_sending(list.count());
  const int answer = library_.post_send(queues_[q].pair.get(), list.first(), &bad);
  list.clear();
  if (answer == 0) [[likely]]
    return;
  fail(answered(answer, fmt::format("{}: queue pair {}", path(), queues_[q].pair->qp_num)));
}

bool IbEndpoint::has_room(std::size_t q, std::size_t more) const {
  const Queue& queue = queues_[q];
  return queue.posted - queue.retired < interface_.ib().send_depth &&
         interface_.has_completions(more);
}

bool IbEndpoint::has_window() const {
  return messages_ - peer_received_ < window_;
}

// Whether we wait for places in the peer's receive queue, after a look at the word that the peer
// writes without a message.
bool IbEndpoint::starved() {
  if (!failure_.ok() || !peer_ready_ || has_window()) return false;
  std::uint32_t& word = scratch().words.received;
  take_received(std::atomic_ref<std::uint32_t>(word).load(std::memory_order_acquire));
  return waits_to_go() && !has_window();
}

void IbEndpoint::say(const Control& control) {
  controls_.push() = control;
  interface_.pump_later(*this);
}

// Each is sent from a place of its own until its completion came, where it does not fit into the
// work request.
void IbEndpoint::pump_controls() {
  PostList list;
  while (failure_.ok() && !controls_.empty()) {
    const std::size_t place = controls_sent_ % Scratch::kControls;
    if (list.full()) hand_over(0, list);
    if (!failure_.ok() || !has_room(0, list.count() + 1) || !has_window() ||
        control_numbers_[place] > queues_[0].retired)
      break;
    Control& control = scratch().said[place];
    control = controls_.front();
    controls_.pop();
    control.received = received_;
    ibv_send_wr& request = list.add();
    list.part(request, &control, sizeof control, scratch_.lkey());
    request.opcode = IBV_WR_SEND;
    finish(queues_[0], request, sizeof control, true);
    control_numbers_[place] = queues_[0].posted;
    ++controls_sent_;
    ++messages_;
  }
  hand_over(0, list);
}

void IbEndpoint::take_released(std::uint32_t channel, std::uint32_t released) {
  Outgoing& out = outgoing_[channel];
  const std::uint32_t more = released - static_cast<std::uint32_t>(out.released);
  // Queue pairs are not ordered among each other: an older count is no error and says nothing new.
  if (more <= out.sent - out.released) out.released += more;
}

void IbEndpoint::take_received(std::uint32_t received) {
  if (received - peer_received_ <= messages_ - peer_received_) peer_received_ = received;
}

// A release may come before the completion of what was released; its memory is in use until then.
std::uint64_t IbEndpoint::released(std::uint32_t channel) {
  const Outgoing& out = outgoing_[channel];
  return interface_.closed() ? out.posted : std::min(out.released, settled(channel));
}

// Small notices are settled at once, they were copied; pieces, copied ones too, when the device has
// sent them or may no more: by that a bond sees which rail is behind.
std::uint64_t IbEndpoint::settled(std::uint32_t channel) {
  Outgoing& out = outgoing_[channel];
  const Queue& queue = queues_[queue_of(channel)];
  for (; out.settled < out.posted; ++out.settled) {
    Sent& sent = out.slots[out.settled & (interface_.options().slots - 1)];
    const bool sending =
        sent.ring == RingKind::pieces && (sent.number == 0 || sent.number > queue.retired);
    if (sending && failure_.ok()) break;
    sent.use.reset();
  }
  return out.settled;
}

void IbEndpoint::retire(std::size_t q, std::uint64_t number) {
  Queue& queue = queues_[q];
  if (number <= queue.retired) return;
  interface_.count_retired(number - queue.retired);
  queue.retired = number;
  if (waits_to_go()) interface_.pump_later(*this);
}

// Nothing waits, and all that will have a completion has had it.
bool IbEndpoint::idle() const {
  if (waits_to_go()) return false;
  return std::ranges::all_of(queues_, [](const Queue& queue) {
    return queue.retired + queue.unsignalled >= queue.posted;
  });
}

// The last on every queue pair, so that its completion says that all before has arrived.
void IbEndpoint::say_goodbye() {
  if (!failure_.ok() || !peer_ready_ || peer_closed()) return;
  PostList list;
  for (std::size_t q = 1; q < queues_.size(); ++q) {
    if (!has_room(q, 1)) continue;  // it stands still
    ibv_send_wr& request = list.add();
    request.opcode = IBV_WR_RDMA_WRITE;
    request.wr.rdma.remote_addr = words_;
    request.wr.rdma.rkey = words_key_;
    finish(queues_[q], request, 0, true);
    hand_over(q, list);
  }
  Control goodbye;
  goodbye.kind = ControlKind::goodbye;
  say(goodbye);
}

Status IbEndpoint::read_now(std::span<std::byte>, const RemoteBuffer&) {
  return Status(
      Code::unavailable,
      fmt::format("{}: reading rank {}'s memory needs the device's time", interface_.name(), peer_),
      peer_);
}

const Status& IbEndpoint::process_access() const {
  // Never destroyed: a static context may be the last that uses it.
  static const Status& none = *new Status(
      Code::unavailable, "over RDMA no rank reads memory of another that is not registered");
  return none;
}

}  // namespace weft::ib
