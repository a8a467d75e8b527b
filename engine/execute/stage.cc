// stage: the staging of a message in private memory. It decides which block an edge reads, when a
// block is free again, and what an edge does while there is no free block.
//
// An operation never stops for lack of a block. Suppose that there is no block for an edge:
//  - If the edge's reader has released everything that was posted, the next bytes go to a slot,
//    because slots belong to the edge alone.
//  - If the reader has not, the edge waits for the reader, as on any transport.
//  - If the plan has only one send (reads_in_step_), the edge may also wait for slower readers of
//    that send. The verifier proves that this ends (scheduler/plan/verify.h).
#include <algorithm>
#include <cstring>

#include "engine/execute/execute.h"

namespace weft {

// Sets `piece` to the edge's next piece: the rest of a staged block, or a part of it that fits a
// slot. Returns false if the edge has to wait.
bool Execution::stage(Sending& send, std::uint32_t at, Piece& piece) {
  Endpoint& reader = *out_[plan_->edges[send.step->first + at]].endpoint;
  if (reader.posted(options_.channel) - reader.released(options_.channel) >= kStagedUnread)
    return false;
  const auto index = static_cast<std::size_t>(&send - sends_.data());
  const std::uint64_t cursor = cursors_[send.first_cursor + at];
  const std::uint64_t in_block = cursor % staging().block_bytes();
  const std::uint64_t begin = cursor - in_block;
  const std::uint64_t filled = std::min(send.bytes - begin, std::uint64_t{staging().block_bytes()});
  const auto found = std::ranges::find_if(
      staged_, [&](const Staged& block) { return block.begin == begin && block.send == index; });
  piece.bytes = filled - in_block;
  piece.staged = static_cast<std::size_t>(found - staged_.begin());
  if (found == staged_.end()) {
    std::byte* const block = block_for(send);
    if (block == nullptr) {
      if (waits_for_block(send, at)) return false;
      piece.form = Form::copied;
      piece.bytes = std::min<std::uint64_t>(piece.bytes, options_.payload_bytes);
      return true;
    }
    piece.staged = staged_.size();
    std::memcpy(block, send.source + begin, filled);
    staged_.push_back({block, index, begin});
    staged_marks_.resize(staged_.size() * out_.size(), 0);
    ++send.blocks;
  }
  piece.source = staged_[piece.staged].data + in_block;
  return true;
}

// Whether an edge for which there is no block should wait. It waits if its own reader has notices
// to release. It also waits if the readers go in step and a block that this edge has passed is
// still in use: that block becomes free when the slower readers have read it. The edge whose reader
// has read least never waits for the others, because they have read every block that it has passed.
bool Execution::waits_for_block(const Sending& send, std::uint32_t at) {
  Endpoint& reader = *out_[plan_->edges[send.step->first + at]].endpoint;
  if (reader.released(options_.channel) != reader.posted(options_.channel)) return true;
  const auto index = static_cast<std::size_t>(&send - sends_.data());
  const std::uint64_t cursor = cursors_[send.first_cursor + at];
  return reads_in_step_ && std::ranges::any_of(staged_, [&](const Staged& block) {
           return block.send == index && block.begin < cursor;
         });
}

// A block for the next part of the message, or nullptr. If readers do not go in step, a block may
// be used again although a slow edge has not been given it, as soon as all edges that were given
// the block have read it. Its part of the message is then staged again for the slow edge.
std::byte* Execution::block_for(Sending& send) {
  if (send.blocks < send.most_blocks) {
    if (std::byte* const block = staging().take()) return block;
  }
  const auto index = static_cast<std::size_t>(&send - sends_.data());
  for (std::size_t staged = 0; staged < staged_.size() && !reads_in_step_; ++staged) {
    if (staged_[staged].send == index && is_read(staged)) return drop_staged(staged);
  }
  return nullptr;
}

// Whether all edges that were given the block have read it.
bool Execution::is_read(std::size_t staged) const {
  for (std::size_t edge = 0; edge < out_.size(); ++edge) {
    const std::uint64_t mark = staged_marks_[staged * out_.size() + edge];
    if (mark != 0 && out_[edge].endpoint->locally_completed(options_.channel) < mark) return false;
  }
  return true;
}

// Whether every edge that reads staged blocks has been given the block.
bool Execution::is_taken(std::size_t staged) {
  const Sending& send = sends_[staged_[staged].send];
  const std::uint64_t end = staged_[staged].begin + staging().block_bytes();
  for (std::uint32_t i = 0; i < send.step->count; ++i) {
    const OutEdge& out = out_[plan_->edges[send.step->first + i]];
    if (out.endpoint->properties().shares_memory && cursors_[send.first_cursor + i] < end)
      return false;
  }
  return true;
}

// Removes the block from staged_ and returns its memory. The last entry moves to its place.
std::byte* Execution::drop_staged(std::size_t staged) {
  std::byte* const data = staged_[staged].data;
  --sends_[staged_[staged].send].blocks;
  const auto row = [this](std::size_t block) {
    return staged_marks_.begin() + static_cast<std::ptrdiff_t>(block * out_.size());
  };
  std::copy_n(row(staged_.size() - 1), out_.size(), row(staged));
  staged_[staged] = staged_.back();
  staged_.pop_back();
  staged_marks_.resize(staged_.size() * out_.size());
  return data;
}

// Gives back the blocks that no edge needs any more.
void Execution::collect_staged() {
  for (std::size_t staged = staged_.size(); staged-- > 0;) {
    if (is_taken(staged) && is_read(staged)) staging().give(drop_staged(staged));
  }
}

}  // namespace weft
