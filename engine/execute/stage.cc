// The staging of a message in private memory: which block an edge reads, when a block is free again,
// and what an edge does while there is none.
//
// No operation can stand still for want of a block. An edge whose reader has released all that was
// posted, and for which there is no block, gets its next bytes in a slot, which is its own. An edge
// whose reader has not, waits for that reader, as it would on any transport. Only the readers of a
// plan's lone send wait for those that are behind: the verifier proves that they can
// (scheduler/plan/verify.h).
#include <algorithm>
#include <cstring>

#include "engine/execute/execute.h"

namespace weft {

// Makes `piece` what the edge gets next: the rest of a staged block, or a slot's worth of it. False
// when the edge has to wait.
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

// Whether an edge for which there is no block will find one, or be asked again, by what its readers
// do: its own reader has pieces to release, or readers that go in step have yet to be done with a
// block that this edge is past. The edge that is last of all never waits for the others.
bool Execution::waits_for_block(const Sending& send, std::uint32_t at) {
  Endpoint& reader = *out_[plan_->edges[send.step->first + at]].endpoint;
  if (reader.released(options_.channel) != reader.posted(options_.channel)) return true;
  const auto index = static_cast<std::size_t>(&send - sends_.data());
  const std::uint64_t cursor = cursors_[send.first_cursor + at];
  return reads_in_step_ && std::ranges::any_of(staged_, [&](const Staged& block) {
           return block.send == index && block.begin < cursor;
         });
}

// A block for more of the message, or nullptr. Where readers do not go in step, one that a slow edge
// has yet to take may be used again, once all who took it have read it: it is staged anew for that
// edge.
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

// Whether all who were told of the block have released it.
bool Execution::is_read(std::size_t staged) const {
  for (std::size_t edge = 0; edge < out_.size(); ++edge) {
    const std::uint64_t mark = staged_marks_[staged * out_.size() + edge];
    if (mark != 0 && out_[edge].endpoint->settled(options_.channel) < mark) return false;
  }
  return true;
}

// Whether no edge is still to be told of the block.
bool Execution::is_taken(std::size_t staged) {
  const Sending& send = sends_[staged_[staged].send];
  const std::uint64_t end = staged_[staged].begin + staging().block_bytes();
  for (std::uint32_t i = 0; i < send.step->count; ++i) {
    const OutEdge& out = out_[plan_->edges[send.step->first + i]];
    if (out.endpoint->shares_memory() && cursors_[send.first_cursor + i] < end) return false;
  }
  return true;
}

// Forgets the block and hands it over. The last of the list takes its place.
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
