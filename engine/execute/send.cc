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
constexpr std::uint32_t kStagedRing = 4;  // pieces

}  // namespace

Execution::Form Execution::form_of(const std::byte* source, std::uint64_t bytes) const {
  if (bytes <= kInlineBytes) return Form::inlined;
  if (bytes <= options_.payload_bytes) return Form::copied;
  if (heap_offset(source, bytes) != kNotInHeap) return Form::viewed;
  return options_.foreign == ForeignForm::process ? Form::process : Form::staged;
}

// Whether any, or every, receiver of the send reads our shared heap in place.
bool Execution::any_shares_memory(const Step& step) const {
  return std::ranges::any_of(
      edges_of(step), [this](std::uint32_t edge) { return out_[edge].endpoint->shares_memory(); });
}

bool Execution::all_share_memory(const Step& step) const {
  return std::ranges::all_of(
      edges_of(step), [this](std::uint32_t edge) { return out_[edge].endpoint->shares_memory(); });
}

std::uint32_t Execution::staged_pieces(const Step& step, const Bytes& source) const {
  if (form_of(source.data, source.count) != Form::staged || !any_shares_memory(step)) return 0;
  const std::uint64_t most = largest_piece(step, Form::staged);
  return static_cast<std::uint32_t>((source.count + most - 1) / most);
}

// How much of a message goes into one piece. Every edge of a send gets the same pieces, each as it
// takes them.
std::uint64_t Execution::largest_piece(const Step& step, Form form) const {
  if (form == Form::inlined || form == Form::copied) return options_.payload_bytes;
  std::uint64_t most = form == Form::staged ? kStagedPiece : kLargestView;
  if (!all_share_memory(step)) most = std::min<std::uint64_t>(most, options_.piece_bytes);
  return most;
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
    pieces += staged_pieces(step, bytes_of(step.slice));
    ++sends;
  }
  staging_is_ring_ = sends == 1;
  if (staging_is_ring_) pieces = std::min({pieces, options_.slots, kStagedRing});
  return grow(staging_, pieces * kStagedPiece, "staging");
}

void Execution::begin_send(const Step& step) {
  const Bytes source = bytes_of(step.slice);
  Sending& send = sends_.emplace_back();
  send.step = &step;
  send.source = source.data;
  send.bytes = source.count;
  send.form = form_of(source.data, source.count);
  const bool large = send.form != Form::inlined && send.form != Form::copied;
  if (large && !any_shares_memory(step)) send.form = Form::carried;
  send.most = largest_piece(step, send.form);
  send.pieces = send.bytes <= send.most
                    ? 1
                    : static_cast<std::uint32_t>((send.bytes + send.most - 1) / send.most);
  send.first_cursor = static_cast<std::uint32_t>(cursors_.size());
  // Edges that were served the brief way have their only piece.
  for (std::uint32_t i = 0; i < step.count; ++i) cursors_.push_back(i < brief_posts_ ? 1 : 0);
  if (send.form == Form::staged) {
    const std::uint32_t pieces = staged_pieces(step, source);
    send.first_slot = staging_used_;
    send.slots = staging_is_ring_ ? std::min({pieces, options_.slots, kStagedRing}) : pieces;
    staging_used_ += send.slots;
  }
  if (send.pieces > 1 && send.form == Form::carried) {
    for (const std::uint32_t edge : edges_of(step))
      out_[edge].endpoint->expect_pieces({send.source, send.bytes});
  }
  brief_posts_ = 0;
  send_of_step_[static_cast<std::size_t>(&step - plan_->steps.data())] =
      static_cast<std::uint32_t>(sends_.size() - 1);
}

// Sends go on in the order begun. An edge whose slots are full holds back what comes later along
// it, and nothing else: a peer may have to take from others before it takes from us.
void Execution::pump_sends() {
  if (first_unfinished_ == sends_.size()) return;
  bool anything_blocked = false;
  for (std::size_t i = first_unfinished_; i < sends_.size(); ++i) {
    if (!sends_[i].finished && !pump(sends_[i])) anything_blocked = true;
  }
  while (first_unfinished_ < sends_.size() && sends_[first_unfinished_].finished)
    ++first_unfinished_;
  if (anything_blocked) {
    for (OutEdge& edge : out_) edge.blocked = false;
  }
}

// Gives every edge its next piece in turn until none takes one. True when all have all.
bool Execution::pump(Sending& send) {
  bool posted = true;
  while (posted) {
    posted = false;
    send.finished = true;
    for (std::uint32_t i = 0; i < send.step->count; ++i) {
      std::uint32_t& piece = cursors_[send.first_cursor + i];
      if (piece == send.pieces) continue;
      OutEdge& out = out_[plan_->edges[send.step->first + i]];
      if (!out.blocked && stage(send, piece) && post_piece(send, out, piece) == Posted::posted) {
        posted = true;
        ++piece;
      } else {
        out.blocked = true;
      }
      if (piece != send.pieces) send.finished = false;
    }
  }
  return send.finished;
}

// Where a message is staged, copies the piece into its slot of the ring, if all readers of the
// piece before it there are done. False until then.
bool Execution::stage(Sending& send, std::uint32_t piece) {
  if (send.form != Form::staged || piece < send.staged) return true;
  for (std::uint32_t i = 0; piece >= send.slots && i < send.step->count; ++i) {
    Endpoint& endpoint = *out_[plan_->edges[send.step->first + i]].endpoint;
    if (!endpoint.shares_memory()) continue;  // takes its pieces from the source
    const std::uint64_t unread =
        endpoint.posted(options_.channel) - endpoint.released(options_.channel);
    // A send that goes round a ring is alone, so what is unread are its latest pieces.
    if (cursors_[send.first_cursor + i] + send.slots <= piece + unread) return false;
  }
  const std::size_t slot = send.first_slot + piece % send.slots;
  std::memcpy(staging_.data + slot * kStagedPiece, send.source + send.begin_of(piece),
              send.bytes_of(piece));
  ++send.staged;
  return true;
}

Posted Execution::post_piece(const Sending& send, OutEdge& out, std::uint32_t piece) {
  WireHeader head = header_;
  const std::uint64_t bytes = send.bytes_of(piece);
  const std::byte* source = send.source + send.begin_of(piece);
  std::span<const std::byte> payload;
  head.kind = NoticeKind::data;
  head.piece = piece;
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
    case Form::carried:
      head.form = PieceForm::payload;
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
      const std::size_t slot = send.first_slot + piece % send.slots;
      head.word = heap_offset(staging_.data + slot * kStagedPiece, bytes);
      break;
    }
  }
  const auto edge = static_cast<std::size_t>(&out - out_.data());
  address(head, edge, piece + 1 == send.pieces);
  const bool read_later = send.form != Form::inlined && send.form != Form::copied;
  const Posted posted = read_later ? post_large(*out.endpoint, head, {source, bytes})
                                   : out.endpoint->post_notice(options_.channel, head, payload);
  if (posted == Posted::full) return Posted::full;
  out.spoken = true;
  moved_ = true;
  call_.out[edge]->sent_bytes += bytes;
  options_.trace->add(Event::send_posted, call_.operation, call_.out[edge]->rank,
                      static_cast<std::uint16_t>(send.step - plan_->steps.data()));
  if (!read_later) return Posted::posted;
  out.mark = out.endpoint->posted(options_.channel);
  if (!plan_->hazards.empty()) {
    const auto index = static_cast<std::size_t>(&send - sends_.data());
    read_marks_[index * out_.size() + edge] = out.mark;
  }
  return Posted::posted;
}

// What a piece says to the peer of one edge: its weight, and with the first the credit.
void Execution::address(WireHeader& head, std::size_t edge, bool is_last) const {
  const OutEdge& out = out_[edge];
  head.weight = send_weight(edge);
  head.flags = static_cast<std::uint8_t>((is_last ? kFlagLast : 0) |
                                         (!out.spoken && out.mutual ? kFlagCredit : 0) |
                                         (is_unused(head.weight) ? kFlagNothing : 0));
}

// A piece of a large message to one peer: named where the peer shares our memory, else carried
// there.
Posted Execution::post_large(Endpoint& endpoint, const WireHeader& head,
                             std::span<const std::byte> source) {
  if (endpoint.shares_memory()) return endpoint.post_notice(options_.channel, head, {});
  WireHeader carried = head;
  carried.form = PieceForm::payload;
  carried.word = 0;
  return endpoint.post_piece(options_.channel, carried, source);
}

// To in-peers that get no data from us: the notice that we expect theirs. True when all are posted.
bool Execution::post_credits() {
  if (!check_graph_) return true;
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

// Whether a send stands still because the peer has not released what came before.
bool Execution::waits_for_slots(std::uint32_t edge) const {
  return std::any_of(sends_.begin() + static_cast<std::ptrdiff_t>(first_unfinished_), sends_.end(),
                     [&](const Sending& send) {
                       const auto edges = edges_of(*send.step);
                       const auto at = std::ranges::find(edges, edge) - edges.begin();
                       return static_cast<std::size_t>(at) < edges.size() &&
                              cursors_[send.first_cursor + static_cast<std::size_t>(at)] !=
                                  send.pieces;
                     });
}

// A send that went the brief way was copied.
bool Execution::readers_done(std::size_t send_index) {
  if (send_index == kSentBriefly) return true;
  if (!sends_[send_index].finished) return false;
  for (std::size_t edge = 0; edge < out_.size(); ++edge) {
    const std::uint64_t mark = read_marks_[send_index * out_.size() + edge];
    if (mark != 0 && out_[edge].endpoint->settled(options_.channel) < mark) return false;
  }
  return true;
}

bool Execution::all_readers_done() {
  return std::ranges::all_of(out_, [this](const OutEdge& edge) {
    return edge.mark == 0 || edge.endpoint->settled(options_.channel) >= edge.mark;
  });
}

}  // namespace weft
