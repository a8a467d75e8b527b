// Sends: choosing a form, cutting pieces, posting them as slots and staging allow.
#include <algorithm>
#include <cstring>

#include "engine/execute/execute.h"

namespace weft {
namespace {

// A piece that is read in place names its length in 32 bits; this leaves room and keeps huge pages
// whole.
constexpr std::uint64_t kLargestView = std::uint64_t{1} << 30;
// Pieces of staged messages: small enough that a ring of them stays in a core's second-level cache.
constexpr std::uint64_t kStagedPiece = std::uint64_t{64} << 10;

}  // namespace

Execution::Form Execution::form_of(const std::byte* source, std::uint64_t bytes) const {
  if (bytes <= kInlineBytes) return Form::inlined;
  if (bytes <= options_.payload_bytes) return Form::copied;
  if (heap_offset(source, bytes) != kNotInHeap) return Form::viewed;
  return options_.foreign == ForeignForm::process ? Form::process : Form::staged;
}

std::uint32_t Execution::staged_pieces(const Bytes& source) const {
  if (form_of(source.data, source.count) != Form::staged) return 0;
  return static_cast<std::uint32_t>((source.count + kStagedPiece - 1) / kStagedPiece);
}

// A lone send goes round a ring of a few slots, because its receivers take its pieces in order
// while it runs. Of several sends each gets slots of its own for all its pieces: a reader may need
// a later send before it takes the rest of an earlier one. All slots are there before the first
// piece is posted, since a ring that is read cannot move.
Status Execution::bind_staging() {
  if (std::max(call_.input_count, call_.output_count) * element_ <= options_.payload_bytes)
    return {};
  std::uint32_t pieces = 0;
  std::size_t sends = 0;
  for (const Step& step : plan_->steps) {
    if (step.kind != Step::Kind::send) continue;
    pieces += staged_pieces(bytes_of(step.slice));
    ++sends;
  }
  staging_is_ring_ = sends == 1;
  if (staging_is_ring_) pieces = std::min(pieces, options_.slots);
  return grow(staging_, pieces * kStagedPiece, "staging");
}

void Execution::begin_send(const Step& step) {
  const Bytes source = bytes_of(step.slice);
  Sending& send = sends_.emplace_back();
  send.step = &step;
  send.source = source.data;
  send.bytes = source.count;
  send.form = form_of(source.data, source.count);
  if (send.form == Form::staged) {
    const std::uint32_t pieces = staged_pieces(source);
    send.first_slot = staging_used_;
    send.slots = staging_is_ring_ ? std::min(pieces, options_.slots) : pieces;
    staging_used_ += send.slots;
  }
  send_of_step_[static_cast<std::size_t>(&step - plan_->steps.data())] =
      static_cast<std::uint32_t>(sends_.size() - 1);
}

// Sends go on in the order begun. One that cannot proceed holds back only later sends along the
// same edges.
void Execution::pump_sends() {
  if (first_unfinished_ == sends_.size()) return;
  bool anything_blocked = false;
  for (std::size_t i = first_unfinished_; i < sends_.size(); ++i) {
    Sending& send = sends_[i];
    if (send.finished) continue;
    const std::span edges(plan_->edges.data() + send.step->first, send.step->count);
    const bool behind = anything_blocked && std::ranges::any_of(edges, [&](std::uint32_t edge) {
                          return out_[edge].blocked;
                        });
    if (!behind && pump(send)) continue;
    anything_blocked = true;
    for (const std::uint32_t edge : edges) out_[edge].blocked = true;
  }
  while (first_unfinished_ < sends_.size() && sends_[first_unfinished_].finished)
    ++first_unfinished_;
  if (anything_blocked) {
    for (OutEdge& edge : out_) edge.blocked = false;
  }
}

// True when all pieces of the send are posted on all its edges.
bool Execution::pump(Sending& send) {
  do {
    std::uint64_t bytes = send.bytes - send.cursor;
    if (send.form == Form::staged) {
      bytes = std::min(bytes, kStagedPiece);
      if (send.edge == 0 && !stage(send, bytes)) return false;
    } else {
      bytes = std::min(bytes, kLargestView);
    }
    if (post_piece(send, bytes) == Posted::full) return false;
    send.cursor += bytes;
    send.edge = 0;
    ++send.piece;
  } while (send.cursor < send.bytes);
  send.finished = true;
  return true;
}

// Copies the next piece into its slot of the ring, if the readers of the piece before it there are
// done.
bool Execution::stage(Sending& send, std::uint64_t bytes) {
  if (send.piece >= send.slots) {
    for (std::uint32_t e = 0; e < send.step->count; ++e) {
      Endpoint& endpoint = *out_[plan_->edges[send.step->first + e]].endpoint;
      // Every piece since is one notice: the reader of piece p - slots is done when at most slots -
      // 1 are left.
      if (endpoint.posted(options_.channel) - endpoint.released(options_.channel) >= send.slots) {
        return false;
      }
    }
  }
  const std::size_t slot = send.first_slot + send.piece % send.slots;
  std::memcpy(staging_.data + slot * kStagedPiece, send.source + send.cursor, bytes);
  return true;
}

// Posts the current piece on the edges that do not have it yet.
Posted Execution::post_piece(Sending& send, std::uint64_t bytes) {
  WireHeader head = header_;
  head.kind = NoticeKind::data;
  const std::byte* source = send.source + send.cursor;
  std::span<const std::byte> payload;
  head.piece = send.piece;
  head.bytes = static_cast<std::uint32_t>(bytes);
  switch (send.form) {
    case Form::inlined:
      head.form = PieceForm::inlined;
      if (bytes != 0) std::memcpy(&head.word, source, bytes);
      break;
    case Form::copied:
      head.form = PieceForm::payload;
      payload = {source, bytes};
      break;
    case Form::viewed:
      head.form = PieceForm::view;
      head.word = heap_offset(source, bytes);
      break;
    case Form::process:
      head.form = PieceForm::process;
      head.word = reinterpret_cast<std::uintptr_t>(source);
      break;
    case Form::staged: {
      head.form = PieceForm::view;
      const std::size_t slot = send.first_slot + send.piece % send.slots;
      head.word = heap_offset(staging_.data + slot * kStagedPiece, bytes);
      break;
    }
  }
  const bool read_later = send.form != Form::inlined && send.form != Form::copied;
  const auto index = static_cast<std::size_t>(&send - sends_.data());
  for (; send.edge < send.step->count; ++send.edge) {
    const std::uint32_t edge = plan_->edges[send.step->first + send.edge];
    OutEdge& out = out_[edge];
    head.edge = static_cast<std::uint16_t>(edge);
    head.weight = call_.send_weights.empty() ? 1.0 : call_.send_weights[edge];
    head.flags = static_cast<std::uint8_t>((send.cursor + bytes == send.bytes ? kFlagLast : 0) |
                                           (!out.spoken && out.mutual ? kFlagCredit : 0) |
                                           (is_unused(head.weight) ? kFlagNothing : 0));
    if (out.endpoint->post_notice(options_.channel, head, payload) == Posted::full)
      return Posted::full;
    out.spoken = true;
    moved_ = true;
    options_.trace->add(Event::send_posted, call_.operation, call_.out[edge]->rank,
                        static_cast<std::uint16_t>(send.step - plan_->steps.data()));
    if (!read_later) continue;
    out.mark = out.endpoint->posted(options_.channel);
    if (!plan_->hazards.empty()) read_marks_[index * out_.size() + edge] = out.mark;
  }
  return Posted::posted;
}

// To in-peers that get no data from us: the notice that we expect theirs. True when all are posted.
bool Execution::post_credits() {
  if (!options_.check_graph) return true;
  for (; credit_posts_ < in_.size(); ++credit_posts_) {
    if (in_[credit_posts_].mutual) continue;
    WireHeader head = header_;
    head.kind = NoticeKind::credit;
    if (in_[credit_posts_].endpoint->post_notice(options_.channel, head, {}) == Posted::full)
      return false;
    moved_ = true;
  }
  return true;
}

bool Execution::readers_done(std::size_t send_index) {
  if (!sends_[send_index].finished) return false;
  for (std::size_t edge = 0; edge < out_.size(); ++edge) {
    const std::uint64_t mark = read_marks_[send_index * out_.size() + edge];
    if (mark != 0 && out_[edge].endpoint->released(options_.channel) < mark) return false;
  }
  return true;
}

bool Execution::all_readers_done() {
  return std::ranges::all_of(out_, [this](const OutEdge& edge) {
    return edge.mark == 0 || edge.endpoint->released(options_.channel) >= edge.mark;
  });
}

}  // namespace weft
