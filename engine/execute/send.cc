// send: choosing the form of a message, cutting it into pieces, and posting these as slots and the
// staging area allow.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/execute/execute.h"

namespace weft {
namespace {

// The largest piece that is read in place. WireHeader::bytes has 32 bits; 1 GiB is less than that
// and a multiple of the size of a huge page.
constexpr std::uint64_t kLargestView = std::uint64_t{1} << 30;
// The same where its sender checks it first: receivers combine a piece while the sender checks the next one.
constexpr std::uint64_t kLargestCheckedView = std::uint64_t{4} << 20;
// Blocks of the staging area that a message may hold if its readers go in step. So many stay in the
// core's second-level cache.
constexpr std::uint32_t kStagedInStep = 4;
// The smallest message for which both ways of private memory are tried.
constexpr std::uint64_t kTryBothWays = std::uint64_t{16} << 10;
// The smallest message that is copied for which reading is tried first (measured:
// docs/performance.md). What is summed is staged first.
constexpr std::uint64_t kReadFirst = std::uint64_t{64} << 10;

}  // namespace

bool Execution::is_in_device_memory(const Bytes& source) const {
  return source.count != 0 && call_.reducer != nullptr &&
         call_.reducer->is_in_device_memory(source.data());
}

Execution::Form Execution::form_of(const Step& step, const Bytes& source) {
  if (!source.is_one_run()) return Form::listed;
  if (is_in_device_memory(source)) return Form::viewed;
  if (source.count <= kInlineBytes) return Form::inlined;
  if (source.count <= options_.payload_bytes) return Form::copied;
  if (!any_shares_memory(step)) return Form::carried;
  if (heap_offset(source.data(), source.count) != kNotInHeap) return Form::viewed;
  return is_read_privately(step, source.count) ? Form::process : Form::staged;
}

// Whether the receivers that share memory read the source directly. Receivers in this process read
// it in place. Another one reads it by process_vm_readv: if it only copies the message, straight to
// its destination, and through the staging area the bytes would be copied twice. If it sums, that is
// a copy of its own, while staged blocks are summed from where they lie. Which is quicker is measured.
bool Execution::is_read_privately(const Step& step, std::uint64_t bytes) {
  if (options_.private_memory != PrivateForm::cheaper)
    return options_.private_memory == PrivateForm::process;
  bool is_in_process = true;
  for (const std::uint32_t edge : edges_of(step)) {
    Endpoint& peer = *out_[edge].endpoint;
    if (!peer.properties().shares_memory) continue;
    if (!peer.reads_private_memory()) return false;
    is_in_process = is_in_process && peer.properties().shares_process;
  }
  if (is_in_process) return true;
  if (bytes < kTryBothWays || is_one_of_many_to_root()) return false;
  const bool is_read_first = step.combining == Combining::copy && bytes >= kReadFirst;
  const auto first = is_read_first ? PrivateWays::Way::read : PrivateWays::Way::staged;
  return way_of(bytes, first) == PrivateWays::Way::read;
}

// Whether the root takes the messages of several ranks, one after the other. The root's core is then
// what the operation waits for, and staged messages take less of it. The time of one message would
// not tell.
bool Execution::is_one_of_many_to_root() const {
  const bool is_to_root =
      call_.collective == Collective::gather || call_.collective == Collective::reduce;
  return is_to_root && in_.empty() && options_.size > 2;
}

// The in-neighbor whose way this rank goes; kNoEdge: this rank decides for itself.
std::uint32_t Execution::imitated() const {
  const auto place = [this](Rank rank) { return std::pair(rank < call_.root, rank); };
  std::uint32_t lowest = kNoEdge;
  for (std::uint32_t edge = 0; edge < in_.size(); ++edge) {
    const Endpoint& peer = *in_[edge].endpoint;
    const Rank rank = lowest == kNoEdge ? options_.rank : in_[lowest].endpoint->peer();
    if (peer.properties().shares_memory && !peer.properties().shares_process &&
        place(peer.peer()) < place(rank))
      lowest = edge;
  }
  return lowest;
}

// The way of this operation's private memory, by the first message of it.
PrivateWays::Way Execution::way_of(std::uint64_t bytes, PrivateWays::Way first) {
  if (options_.ways == nullptr) return first;
  if (use_ == nullptr) {
    use_ = &options_.ways->of(call_.collective, bytes, first);
    began_ns_ = now_ns();
    if (imitated_form_ != PieceForm::payload) imitate();
  }
  return use_->way();
}

void Execution::imitate() {
  use_->imitate(imitated_form_ == PieceForm::process ? PrivateWays::Way::read
                                                     : PrivateWays::Way::staged);
}

// After an operation that has ended well.
void Execution::learn_way() {
  if (imitated_edge_ == kNoEdge) {
    use_->measure(now_ns() - began_ns_);
  } else if (imitated_form_ != PieceForm::payload) {
    imitate();
  }
}

// Whether any receiver of the send reads this rank's shared heap in place.
bool Execution::any_shares_memory(const Step& step) const {
  return std::ranges::any_of(edges_of(step), [this](std::uint32_t edge) {
    return out_[edge].endpoint->properties().shares_memory;
  });
}

bool Execution::all_share_memory(const Step& step) const {
  return std::ranges::all_of(edges_of(step), [this](std::uint32_t edge) {
    return out_[edge].endpoint->properties().shares_memory;
  });
}

// The most bytes of a message that go into one piece. The pieces of staged messages to peers that
// share memory are parts of blocks instead.
std::uint64_t Execution::largest_piece(const Step& step, Form form) const {
  if (form == Form::inlined || form == Form::copied) return options_.payload_bytes;
  if (form == Form::staged) return options_.piece_bytes;
  if (!all_share_memory(step)) return piece_bytes();
  const bool is_checked_first =
      options_.checks_pieces && (form == Form::viewed || form == Form::process);
  return is_checked_first ? kLargestCheckedView : kLargestView;
}

// Writes the list of a message in several runs.
const std::byte* Execution::list(Bytes source) {
  auto* const first = reinterpret_cast<WireRun*>(lists_.data) + listed_;
  for (WireRun* next = first; source.count != 0; ++next, ++listed_) {
    const std::uint64_t bytes = std::min(source.count, source.at.left());
    *next = {heap_offset(source.data(), bytes), bytes};
    source.at.advance(bytes);
    source.count -= bytes;
  }
  return reinterpret_cast<const std::byte*>(first);
}

void Execution::begin_send(const Step& step) {
  const Bytes source = bytes_of(step.slice);
  Sending& send = sends_.emplace_back();
  send.step = &step;
  send.form = form_of(step, source);
  send.source = send.form == Form::listed ? list(source) : source.data();
  send.bytes = source.count;
  send.is_in_device_memory = is_in_device_memory(source);
  send.most = largest_piece(step, send.form);
  send.checked_at = kAllPosted;
  send.most_blocks = reads_in_step_ ? kStagedInStep : kStagedUnread * step.count;
  send.first_cursor = static_cast<std::uint32_t>(cursors_.size());
  // The fast path has posted the only piece on the first fast_posts_ edges.
  for (std::uint32_t i = 0; i < step.count; ++i)
    cursors_.push_back(i < fast_posts_ ? kAllPosted : 0);
  if (send.bytes > send.most && send.form == Form::carried) {
    for (const std::uint32_t edge : edges_of(step))
      (void)out_[edge].endpoint->expect_pieces({send.source, send.bytes}, PieceMemory::host);
  }
  fast_posts_ = 0;
  send_of_step_[static_cast<std::size_t>(&step - plan_->steps.data())] =
      static_cast<std::uint32_t>(sends_.size() - 1);
}

// Continues the sends in the order in which they began. An edge whose slots are full holds back
// only later pieces of that edge, because its peer may have to receive from other ranks before it
// receives from this one.
void Execution::pump_sends() {
  if (!staged_.empty()) collect_staged();
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

// Posts the next piece on every edge in turn, until no edge takes one. Returns true if every edge
// has all pieces.
bool Execution::pump(Sending& send) {
  bool posted = true;
  while (posted) {
    posted = false;
    send.finished = true;
    for (std::uint32_t i = 0; i < send.step->count; ++i) {
      const std::uint64_t& cursor = cursors_[send.first_cursor + i];
      if (cursor == kAllPosted) continue;
      OutEdge& out = out_[plan_->edges[send.step->first + i]];
      if (!out.blocked && post_next(send, i)) {
        posted = true;
      } else {
        out.blocked = true;
      }
      if (cursor != kAllPosted) send.finished = false;
    }
  }
  return send.finished;
}

// Posts the next piece on the step's edge number `at`. Returns false if the piece has to wait.
bool Execution::post_next(Sending& send, std::uint32_t at) {
  const std::uint32_t edge = plan_->edges[send.step->first + at];
  OutEdge& out = out_[edge];
  std::uint64_t& cursor = cursors_[send.first_cursor + at];
  Piece piece{send.form, std::min(send.bytes - cursor, send.most), send.source + cursor, 0};
  const bool is_large = send.form != Form::inlined && send.form != Form::copied;
  if (call_.gate != nullptr) {
    const std::size_t there = call_.gate->there(piece.source, piece.bytes);
    if (there < piece.bytes && (!is_large || there == 0)) return false;
    piece.bytes = there;
  }
  if (is_large && !out.endpoint->properties().shares_memory) piece.form = Form::carried;
  if (piece.form == Form::staged && !stage(send, at, piece)) return false;
  const bool is_last = cursor + piece.bytes == send.bytes;
  WireHeader head = header_;
  head.kind = NoticeKind::data;
  head.piece = static_cast<std::uint32_t>(cursor / send.most);
  head.bytes = static_cast<std::uint32_t>(piece.bytes);
  address(head, edge, is_last);
  if (send.is_in_device_memory && piece.form == Form::viewed) head.flags |= kFlagDeviceMemory;
  if (options_.checks_pieces) head.checksum = checksum_of(send, piece, cursor, head.weight);
  if (post(out, head, piece) == Posted::full) return false;
  cursor = is_last ? kAllPosted : cursor + piece.bytes;
  posted(send, edge, piece);
  return true;
}

Posted Execution::post(OutEdge& out, WireHeader& head, const Piece& piece) {
  Endpoint& endpoint = *out.endpoint;
  const std::span payload(piece.source, piece.bytes);
  switch (piece.form) {
    case Form::inlined:
      head.form = PieceForm::inlined;
      if (piece.bytes != 0) std::memcpy(&head.word, piece.source, piece.bytes);
      return endpoint.post_notice(options_.channel, head, {});
    case Form::copied:
      head.form = PieceForm::payload;
      return endpoint.post_notice(options_.channel, head, payload);
    case Form::carried:
      head.form = PieceForm::payload;
      return endpoint.post_piece(options_.channel, head, payload);
    case Form::viewed:
    case Form::staged:
      head.form = PieceForm::view;
      head.word = heap_offset(piece.source, piece.bytes);
      return endpoint.post_notice(options_.channel, head, {});
    case Form::listed:
      head.form = PieceForm::runs;
      head.word = heap_offset(piece.source, sizeof(WireRun));
      return endpoint.post_notice(options_.channel, head, {});
    case Form::process:
      head.form = PieceForm::process;
      head.word = reinterpret_cast<std::uintptr_t>(piece.source);
      return endpoint.post_notice(options_.channel, head, {});
  }
  return Posted::full;
}

// Records a piece that was posted: the statistics, and the marks that tell later whether it has
// been read.
void Execution::posted(Sending& send, std::uint32_t edge, const Piece& piece) {
  OutEdge& out = out_[edge];
  out.spoken = true;
  moved_ = true;
  call_.out[edge]->sent_bytes += piece.bytes;
  options_.trace->add(Event::send_posted, call_.operation, call_.out[edge]->rank,
                      static_cast<std::uint16_t>(send.step - plan_->steps.data()));
  if (send.form == Form::staged && piece.form == Form::copied) send.copied += piece.bytes;
  if (piece.form == Form::inlined || piece.form == Form::copied) return;
  out.mark = out.endpoint->posted(options_.channel);
  if (piece.form == Form::staged) staged_marks_[piece.staged * out_.size() + edge] = out.mark;
  if (plan_->hazards.empty()) return;
  const auto index = static_cast<std::size_t>(&send - sends_.data());
  read_marks_[index * out_.size() + edge] = out.mark;
}

// Fills in the header's fields that depend on the edge: its weight, and flags. The first piece on
// an edge carries the credit.
void Execution::address(WireHeader& head, std::size_t edge, bool is_last) const {
  const OutEdge& out = out_[edge];
  head.weight = send_weight(edge);
  head.flags = static_cast<std::uint8_t>(header_.flags | (is_last ? kFlagLast : 0) |
                                         (!out.spoken && out.mutual ? kFlagCredit : 0) |
                                         (is_unused(head.weight) ? kFlagNothing : 0));
}

// Posts a credit to each in-neighbor to which this rank sends no data. Returns true if all are
// posted.
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

// Whether a send still has pieces to post on the edge.
bool Execution::waits_for_slots(std::uint32_t edge) const {
  return std::any_of(sends_.begin() + static_cast<std::ptrdiff_t>(first_unfinished_), sends_.end(),
                     [&](const Sending& send) {
                       const auto edges = edges_of(*send.step);
                       const auto at = std::ranges::find(edges, edge) - edges.begin();
                       return static_cast<std::size_t>(at) < edges.size() &&
                              cursors_[send.first_cursor + static_cast<std::size_t>(at)] !=
                                  kAllPosted;
                     });
}

// Whether all readers of the send have read it. A send on the fast path was copied into slots, so
// its source is free.
bool Execution::readers_done(std::size_t send_index) {
  if (send_index == kSentFast) return true;
  if (!sends_[send_index].finished) return false;
  for (std::size_t edge = 0; edge < out_.size(); ++edge) {
    const std::uint64_t mark = read_marks_[send_index * out_.size() + edge];
    if (mark != 0 && out_[edge].endpoint->locally_completed(options_.channel) < mark) return false;
  }
  return true;
}

bool Execution::all_readers_done() {
  return std::ranges::all_of(out_, [this](const OutEdge& edge) {
    return edge.mark == 0 || edge.endpoint->locally_completed(options_.channel) >= edge.mark;
  });
}

}  // namespace weft
