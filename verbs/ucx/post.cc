// The sending side of the data path: notices, pieces and the reports of our releases. A small
// notice costs one copy: into the batch that takes everything posted to a peer in one turn.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "verbs/ucx/interface.h"

namespace weft::ucx {
namespace {

// Called by UCX when it no longer reads what was sent. Errors are ignored here, because UCX reports
// them to the endpoint, too (broke()).
void let_go(void* request, ucs_status_t, void* pending) {
  static_cast<Pending*>(pending)->end();
  (*library())->request_free(request);
}

}  // namespace

Lines make_lines(std::size_t bytes) {
  const std::size_t whole = (bytes + kLine - 1) / kLine * kLine;
  return Lines(new (std::align_val_t{kLine}) std::byte[whole]);
}

Message UcxEndpoint::message(MessageKind kind, std::uint32_t channel, std::uint64_t number) const {
  Message made;
  made.kind = kind;
  made.context = interface_.options().context;
  made.job = interface_.options().job;
  made.from = interface_.nonce();
  made.to = nonce_;
  made.rank = static_cast<std::uint16_t>(interface_.rank());
  made.incarnation = incarnation_;
  made.channel = static_cast<std::uint16_t>(channel);
  made.number = number;
  tell_received(made);
  return made;
}

// Writes into the message how many notices of its channel have come and were released by now.
void UcxEndpoint::tell_received(Message& message) const {
  const Incoming& in = incoming_[message.channel];
  message.ahead = static_cast<std::uint16_t>(in.arrived - in.next);
  message.released = in.next;
}

// A message with the counts of tell_received() is on its way.
void UcxEndpoint::count_told(std::uint32_t channel) {
  Incoming& in = incoming_[channel];
  in.reported = in.next;
  in.reported_arrived = in.arrived;
}

// The header and the data must stay as they are while `pending` is true.
void UcxEndpoint::send(const void* header, std::size_t header_bytes,
                       std::span<const std::byte> data, std::uint32_t flags, Pending& pending) {
  ucp_request_param_t how{};
  how.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = flags;
  how.cb.send = let_go;
  how.user_data = &pending;
  const ucs_status_ptr_t request = library_.am_send(connection_->native, kActiveMessage, header,
                                                    header_bytes, data.data(), data.size(), &how);
  if (UCS_PTR_IS_PTR(request)) return pending.begin(interface_.sending());
  if (!UCS_PTR_IS_ERR(request)) return;
  connection_->broken = UCS_PTR_STATUS(request);
  broke();
}

UcxEndpoint::Sent* UcxEndpoint::next_slot(Outgoing& out) {
  if (interface_.closed() || !working()) [[unlikely]]
    return nullptr;
  const std::uint32_t slots = interface_.options().slots;
  if (out.posted - out.released == slots) return nullptr;
  if (out.sent == nullptr) [[unlikely]] {
    out.sent = std::make_unique<Sent[]>(slots);
    count_bytes(slots * sizeof(Sent));
  }
  Sent* slot = &out.sent[out.posted & (slots - 1)];
  return slot->piece != nullptr && slot->piece->pending ? nullptr : slot;
}

// The notice leaves with the batch at the next turn. A control notice leaves at once: there are few
// of them, and after a failure the caller may take no more turns.
Posted UcxEndpoint::post(std::uint32_t channel, const WireHeader& header,
                         std::span<const std::byte> payload, Payload how) {
  if (how == Payload::lent && payload.size() > interface_.payload_stride())
    return post_alone(channel, header, payload);
  Outgoing& out = outgoing_[channel];
  Sent* slot = next_slot(out);
  if (slot == nullptr) return Posted::full;
  std::byte* place = append(sizeof(NoticeMessage), payload);
  if (place == nullptr) return Posted::full;
  // The message is built where it leaves from. If it were built elsewhere, a copy with wide loads
  // would have to wait until the narrow stores of its fields are in memory.
  ::new (place) Message(message(MessageKind::notice, channel, out.posted));
  std::memcpy(place + offsetof(NoticeMessage, header), &header, sizeof header);
  slot->batch = batches_;
  ++out.posted;
  count_told(channel);
  if (interface_.armed() || channel == kControlChannel) flush();
  return Posted::posted;
}

// Works that leave in another order than they were posted are put in order by their place.
bool UcxEndpoint::join_batch(const void* header, std::size_t header_bytes,
                             std::span<const std::byte> data) {
  if (data.size() > kBatchedWork) return false;
  std::byte* const place = append(header_bytes, data);
  if (place == nullptr) return false;
  std::memcpy(place, header, header_bytes);
  if (interface_.armed()) flush();
  return true;
}

std::byte* UcxEndpoint::append(std::size_t header_bytes, std::span<const std::byte> payload) {
  const std::size_t bytes = part_bytes(header_bytes, payload.size());
  Batch* batch = filling();
  if (batch != nullptr && batch->used + bytes > interface_.batch_bytes()) {
    send_batch();
    batch = nullptr;
  }
  if (batch == nullptr) {
    collect_batches();
    if (batches_ - batches_sent_ == kBatches) return nullptr;
    batch_[batches_ % kBatches] = interface_.take_batch();
    batch = filling();
    if (!std::exchange(filled_, true)) interface_.flush_later(*this);
  }
  std::byte* const part = batch->bytes.get() + batch->used;
  batch->used += bytes;
  return write_part(part, header_bytes, payload);
}

Batch* UcxEndpoint::filling() const {
  if (batches_ - batches_sent_ == kBatches) return nullptr;  // UCX still reads all of them
  return batch_[batches_ % kBatches].get();
}

// On a path that has failed nothing is sent, and the batch counts as sent.
void UcxEndpoint::send_batch() {
  Batch* batch = filling();
  if (batch == nullptr) return;
  ++batches_;
  if (working())
    send(nullptr, 0, {batch->bytes.get(), batch->used}, UCP_AM_SEND_FLAG_EAGER, batch->pending);
  collect_batches();
}

void UcxEndpoint::collect_batches() {
  while (batches_sent_ != batches_ && !batch_[batches_sent_ % kBatches]->pending)
    interface_.give_batch(std::move(batch_[batches_sent_++ % kBatches]));
}

// If UCX still holds earlier batches (the socket is full, or not connected yet), the present batch
// gathers more messages. Otherwise many turns with a few messages each would use up all places.
void UcxEndpoint::flush() {
  filled_ = false;
  hand_over_pieces(kPiecesAhead);
  (void)report_releases();
  collect_batches();
  if (batches_ - batches_sent_ < kBatchesAhead || !working()) return send_batch();
  if (filling() != nullptr && !std::exchange(filled_, true)) interface_.flush_later(*this);
}

std::unique_ptr<Batch> UcxInterface::take_batch() {
  if (free_batches_.empty()) {
    auto batch = std::make_unique<Batch>();
    batch->bytes = make_lines(batch_bytes_);
    count_bytes(batch_bytes_);
    return batch;
  }
  auto batch = std::move(free_batches_.back());
  free_batches_.pop_back();
  batch->used = 0;
  return batch;
}

// The data travel in the message (eager). A rendezvous would send a question first. Its question
// and its answer would each wait behind all that is under way in their direction: up to a whole
// window of pieces if both ranks send.
Posted UcxEndpoint::post_alone(std::uint32_t channel, const WireHeader& header,
                               std::span<const std::byte> payload) {
  Outgoing& out = outgoing_[channel];
  Sent* slot = next_slot(out);
  if (slot == nullptr) return Posted::full;
  if (slot->piece == nullptr) {
    slot->piece = std::make_unique<Piece>();
    count_bytes(sizeof(Piece));
  }
  slot->batch = kNoBatch;
  slot->piece->message = {message(MessageKind::notice, channel, out.posted), header};
  slot->piece->data = payload;
  ++out.posted;
  pieces_.push_back(slot->piece.get());
  hand_over_pieces(kPiecesAhead);
  return Posted::posted;
}

// Pieces beyond `most` wait for the next turn. The counts that a piece carries of the other
// direction are those of the moment at which it is handed over.
void UcxEndpoint::hand_over_pieces(std::size_t most) {
  if (!working()) pieces_.clear();
  collect_pieces();
  for (; !pieces_.empty() && held_pieces_.size() < most; pieces_.pop_front()) {
    Piece& piece = *pieces_.front();
    tell_received(piece.message.message);
    count_told(piece.message.message.channel);
    piece.copy = interface_.pool(true).take();
    std::memcpy(piece.copy.get(), piece.data.data(), piece.data.size());
    send(&piece.message, sizeof piece.message, {piece.copy.get(), piece.data.size()},
         UCP_AM_SEND_FLAG_EAGER, piece.pending);
    held_pieces_.push_back(&piece);
    collect_pieces();
  }
  if (!pieces_.empty() && !std::exchange(filled_, true)) interface_.flush_later(*this);
}

void UcxEndpoint::collect_pieces() {
  std::erase_if(held_pieces_, [this](Piece* piece) {
    if (piece->pending) return false;
    interface_.pool(true).give(std::move(piece->copy));
    return true;
  });
}

std::uint64_t UcxEndpoint::released(std::uint32_t channel) {
  const Outgoing& out = outgoing_[channel];
  return interface_.closed() ? out.posted : out.released;
}

// A piece completes locally when the peer says that it has come. That UCX no longer reads a piece
// only shows that the kernel's buffers had room; but a bond judges by locally_completed() how fast
// a path carries.
std::uint64_t UcxEndpoint::locally_completed(std::uint32_t channel) {
  Outgoing& out = outgoing_[channel];
  const std::uint64_t mask = interface_.options().slots - 1;
  out.locally_completed = std::max(out.locally_completed, released(channel));
  collect_batches();
  for (; out.locally_completed < out.posted; ++out.locally_completed) {
    const Sent& sent = out.sent[out.locally_completed & mask];
    const bool held = sent.batch == kNoBatch ? working() && out.arrived <= out.locally_completed
                                             : sent.batch >= batches_sent_;
    if (held) break;
  }
  return out.locally_completed;
}

// A release is reported at once if half of the slots have become free since the last report.
// Otherwise it is reported with the next batch, or when nothing else moves. So neither a stream nor
// a ping-pong pays a message for each release.
void UcxEndpoint::release(std::uint32_t channel) {
  Incoming& in = incoming_[channel];
  const std::uint32_t slots = interface_.options().slots;
  Arrival& arrival = in.arrivals[in.next & (slots - 1)];
  if (arrival.is_piece) interface_.report_soon();
  give_back(arrival);
  arrival.is_there = false;
  ++in.next;
  if (in.next - in.reported >= std::max(slots / 2, 1U) && report(channel)) return;
  report_later(channel);
}

void UcxEndpoint::report_later(std::uint32_t channel) {
  if (std::exchange(incoming_[channel].waiting, true)) return;
  if (unreported_.empty()) interface_.report_later(*this);
  unreported_.push_back(channel);
}

bool UcxEndpoint::report(std::uint32_t channel) {
  Incoming& in = incoming_[channel];
  const bool known = in.next == in.reported && in.arrived == in.reported_arrived;
  if (known || interface_.closed() || (connected() && !working())) return true;
  if (!connected() && hello_.empty()) return true;  // its address is not known
  if (!connected()) {                               // its pieces complete by our report
    interface_.answer_later(*this);
    return false;
  }
  std::byte* place = append(sizeof(Message), {});
  if (place == nullptr) return false;
  ::new (place) Message(message(MessageKind::credit, channel, 0));
  count_told(channel);
  if (interface_.armed()) send_batch();
  return true;
}

bool UcxEndpoint::report_releases() {
  std::erase_if(unreported_, [this](std::uint32_t channel) {
    if (!report(channel)) return false;
    incoming_[channel].waiting = false;
    return true;
  });
  return unreported_.empty();
}

}  // namespace weft::ucx
