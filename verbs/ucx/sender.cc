// Notices, pieces and batches.
#include "verbs/ucx/sender.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "verbs/ucx/interface.h"

namespace weft::ucx {
namespace {

// While UCX is sending this many batches of an endpoint, the next batch waits until it is full or
// one of them has been sent.
constexpr std::size_t kBatchesAhead = 2;
// How many pieces for one peer UCX may hold at a time; the others wait in the endpoint. UCX sends
// what it holds before everything that it is given later. If it held more pieces, our releases
// would wait behind them.
constexpr std::size_t kPiecesAhead = 2;

}  // namespace

Sender::Sender(UcxEndpoint& endpoint)
    : endpoint_(endpoint),
      interface_(endpoint.interface()),
      outgoing_(interface_.options().channels) {
  endpoint.count_bytes(outgoing_.size() * sizeof(Outgoing));
}

Sender::Sent* Sender::next_slot(Outgoing& out) {
  if (interface_.closed() || !endpoint_.working()) [[unlikely]]
    return nullptr;
  const std::uint32_t slots = interface_.options().slots;
  if (out.posted - out.released == slots) return nullptr;
  if (out.sent == nullptr) [[unlikely]] {
    out.sent = std::make_unique<Sent[]>(slots);
    endpoint_.count_bytes(slots * sizeof(Sent));
  }
  Sent* slot = &out.sent[out.posted & (slots - 1)];
  return slot->piece != nullptr && slot->piece->pending ? nullptr : slot;
}

// The notice leaves with the batch at the next turn. A control notice leaves at once: there are few
// of them, and after a failure the caller may take no more turns.
Posted Sender::post(std::uint32_t channel, const WireHeader& header,
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
  ::new (place) Message(endpoint_.message(MessageKind::notice, channel, out.posted));
  std::memcpy(place + offsetof(NoticeMessage, header), &header, sizeof header);
  slot->batch = batches_;
  ++out.posted;
  endpoint_.receiver().count_told(channel);
  if (interface_.armed() || channel == kControlChannel) flush();
  return Posted::posted;
}

// Works that leave in another order than they were posted are put in order by their place.
bool Sender::join_batch(const void* header, std::size_t header_bytes,
                        std::span<const std::byte> data) {
  if (data.size() > kBatchedWork) return false;
  std::byte* const place = append(header_bytes, data);
  if (place == nullptr) return false;
  std::memcpy(place, header, header_bytes);
  if (interface_.armed()) flush();
  return true;
}

std::byte* Sender::append(std::size_t header_bytes, std::span<const std::byte> payload) {
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
    flush_later();
  }
  std::byte* const part = batch->bytes.get() + batch->used;
  batch->used += bytes;
  return write_part(part, header_bytes, payload);
}

Batch* Sender::filling() const {
  if (batches_ - batches_sent_ == kBatches) return nullptr;  // UCX still reads all of them
  return batch_[batches_ % kBatches].get();
}

// On a path that has failed nothing is sent, and the batch counts as sent.
void Sender::send_batch() {
  Batch* batch = filling();
  if (batch == nullptr) return;
  ++batches_;
  give_batches();
}

void Sender::give_batches() {
  if (endpoint_.is_held()) return;
  for (; batches_given_ != batches_; ++batches_given_) {
    Batch& batch = *batch_[batches_given_ % kBatches];
    if (endpoint_.working())
      endpoint_.send(nullptr, 0, {batch.bytes.get(), batch.used}, UCP_AM_SEND_FLAG_EAGER,
                     batch.pending);
  }
  collect_batches();
}

void Sender::collect_batches() {
  while (batches_sent_ != batches_given_ && !batch_[batches_sent_ % kBatches]->pending)
    interface_.give_batch(std::move(batch_[batches_sent_++ % kBatches]));
}

// If UCX still holds earlier batches (the socket is full, or not connected yet), the present batch
// gathers more messages. Otherwise many turns with a few messages each would use up all places.
void Sender::flush() {
  filled_ = false;
  if (endpoint_.is_held()) return;  // greet() sends it
  give_batches();
  hand_over_pieces(kPiecesAhead);
  (void)endpoint_.receiver().report_releases();
  collect_batches();
  if (batches_ - batches_sent_ < kBatchesAhead || !endpoint_.working()) return send_batch();
  if (filling() != nullptr) flush_later();
}

// The data travel in the message (eager). A rendezvous would send a question first. Its question
// and its answer would each wait behind all that is under way in their direction: up to a whole
// window of pieces if both ranks send.
Posted Sender::post_alone(std::uint32_t channel, const WireHeader& header,
                          std::span<const std::byte> payload) {
  Outgoing& out = outgoing_[channel];
  Sent* slot = next_slot(out);
  if (slot == nullptr) return Posted::full;
  if (slot->piece == nullptr) {
    slot->piece = std::make_unique<Piece>();
    endpoint_.count_bytes(sizeof(Piece));
  }
  slot->batch = kNoBatch;
  slot->piece->message = {endpoint_.message(MessageKind::notice, channel, out.posted), header};
  slot->piece->data = payload;
  ++out.posted;
  pieces_.push_back(slot->piece.get());
  hand_over_pieces(kPiecesAhead);
  return Posted::posted;
}

// Pieces beyond `most` wait for the next turn. The counts that a piece carries of the other
// direction are those of the moment at which it is handed over.
void Sender::hand_over_pieces(std::size_t most) {
  if (!endpoint_.working()) pieces_.clear();
  if (endpoint_.is_held()) return;
  collect_pieces();
  for (; !pieces_.empty() && held_pieces_.size() < most; pieces_.pop_front()) {
    Piece& piece = *pieces_.front();
    endpoint_.receiver().tell_received(piece.message.message);
    endpoint_.receiver().count_told(piece.message.message.channel);
    if (endpoint_.send_at_once(&piece.message, sizeof piece.message, piece.data)) continue;
    if (!endpoint_.working()) break;
    piece.copy = interface_.pool(true).take();
    std::memcpy(piece.copy.get(), piece.data.data(), piece.data.size());
    endpoint_.send(&piece.message, sizeof piece.message, {piece.copy.get(), piece.data.size()},
                   UCP_AM_SEND_FLAG_EAGER, piece.pending);
    held_pieces_.push_back(&piece);
    collect_pieces();
  }
  if (!pieces_.empty()) flush_later();
}

void Sender::collect_pieces() {
  std::erase_if(held_pieces_, [this](Piece* piece) {
    if (piece->pending) return false;
    interface_.pool(true).give(std::move(piece->copy));
    return true;
  });
}

std::uint64_t Sender::released(std::uint32_t channel) const {
  const Outgoing& out = outgoing_[channel];
  return interface_.closed() ? out.posted : out.released;
}

// A piece completes locally when the peer says that it has come. That UCX no longer reads a piece
// only shows that the kernel's buffers had room; but a bond judges by locally_completed() how fast
// a path carries.
std::uint64_t Sender::locally_completed(std::uint32_t channel) {
  Outgoing& out = outgoing_[channel];
  const std::uint64_t mask = interface_.options().slots - 1;
  out.locally_completed = std::max(out.locally_completed, released(channel));
  collect_batches();
  for (; out.locally_completed < out.posted; ++out.locally_completed) {
    const Sent& sent = out.sent[out.locally_completed & mask];
    const bool held = sent.batch == kNoBatch
                          ? endpoint_.working() && out.arrived <= out.locally_completed
                          : sent.batch >= batches_sent_;
    if (held) break;
  }
  return out.locally_completed;
}

bool Sender::take_credit(const Message& message) {
  Outgoing& out = outgoing_[message.channel];
  // Messages may overtake each other. So a count that is lower than an earlier one is no error, and
  // is ignored.
  const std::uint64_t arrived = message.released + message.ahead;
  if (message.released > out.posted || arrived > out.posted) return false;
  out.released = std::max(out.released, message.released);
  out.arrived = std::max(out.arrived, arrived);
  return true;
}

void Sender::flush_later() {
  if (!std::exchange(filled_, true)) interface_.flush_later(endpoint_);
}

void Sender::hand_over_all() {
  hand_over_pieces(~std::size_t{0});
  flush();
  send_batch();
}

bool Sender::is_over() {
  collect_pieces();
  collect_batches();
  return held_pieces_.empty() && batches_ == batches_sent_;
}

void Sender::give_back() {
  if (filling() != nullptr) interface_.give_batch(std::move(batch_[batches_ % kBatches]));
}

}  // namespace weft::ucx
