// digest: the checksums of pieces, and the comparison of results.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "engine/execute/checksum.h"
#include "engine/execute/execute.h"

namespace weft {
namespace {

// The checksum of so many bytes from the cursor on, behind those of `seed`.
std::uint32_t checksum(Cursor at, std::uint64_t bytes, std::uint32_t seed) {
  while (bytes != 0) {
    const std::uint64_t run = std::min(bytes, at.left());
    seed = crc32c(at.data(), run, seed);
    at.advance(run);
    bytes -= run;
  }
  return seed;
}

std::string_view digests_of(std::uint8_t flags) {
  const bool checks = (flags & kFlagChecked) != 0;
  const bool compares = (flags & kFlagCompared) != 0;
  return checks ? compares ? "pieces and results" : "pieces" : compares ? "results" : "nothing";
}

}  // namespace

// That of the piece which begins at offset `at` of the message. A message in several runs is one piece, whose
// source is their list.
std::uint32_t Execution::checksum_of(Sending& send, const Piece& piece, std::uint64_t at,
                                     double weight) {
  if (send.is_in_device_memory) return kNoChecksum;
  const std::uint32_t seed = checksum_of_weight(weight);
  if (piece.form == Form::listed)
    return some_checksum(checksum(bytes_of(send.step->slice).at, send.bytes, seed));
  // Weights of edges differ, and so do the checksums.
  const bool is_weighted = !call_.send_weights.empty();
  if (!is_weighted && send.checked_at == at && send.checked_bytes == piece.bytes)
    return send.checksum;
  send.checked_at = at;
  send.checked_bytes = piece.bytes;
  send.checksum = some_checksum(crc32c(piece.source, piece.bytes, seed));
  return send.checksum;
}

// Whether both ranks check the same. If they do not, the operation fails.
bool Execution::is_mode_alike(const WireHeader& header, Rank peer) {
  constexpr std::uint8_t kMode = kFlagChecked | kFlagCompared;
  if (((header.flags ^ header_.flags) & kMode) == 0) return true;
  fail(Status(Code::mismatch,
              fmt::format("{}: rank {} checks {} for damage, this rank {} (WEFT_DIGESTS)", label(),
                          peer, digests_of(header.flags), digests_of(header_.flags)),
              peer));
  return false;
}

// Checks the next `bytes` of a source, which are at `data`, and the checksum of the piece where they are its
// last ones. What was checked before is not looked at again: a reducer may have been offered the bytes
// and have left them to the CPU.
bool Execution::is_intact(Source& source, const std::byte* data, std::uint64_t bytes) {
  if (source.peer == nullptr || source.checksum == kNoChecksum) return true;
  const std::uint64_t known = source.left - source.unchecked;
  if (bytes <= known) return true;
  source.checked = crc32c(data + known, bytes - known, source.checked);
  source.unchecked -= bytes - known;
  if (source.unchecked != 0 || some_checksum(source.checked) == source.checksum) return true;
  const Rank peer = source.peer->peer();
  fail(Status(
      Code::corrupted,
      fmt::format("{}: a piece from rank {} arrived damaged, over {}: its CRC-32C is {:08x}, "
                  "and that of what was sent {:08x}",
                  label(), peer, source.peer->describe(), some_checksum(source.checked),
                  source.checksum),
      peer));
  return false;
}

std::uint32_t Execution::checksum_of_output() {
  const std::uint64_t bytes = call_.output_count * element_;
  if (bytes == 0) return some_checksum(0);
  const Cursor output = call_.output.at(0);
  const bool is_on_device =
      call_.reducer != nullptr && call_.reducer->is_in_device_memory(output.data());
  return is_on_device ? kNoChecksum : some_checksum(checksum(output, bytes, 0));
}

// Tells the out-neighbors of the plan the checksum of this rank's result, and compares it with those of the
// in-neighbors. All ranks are connected by such edges, so if any two results differ, two
// neighbors notice. Returns true if all is compared, and equal.
bool Execution::compare_results() {
  if (!compares() || (in_.empty() && out_.empty())) return true;
  if (result_posts_ == 0 && result_ == kNoChecksum) result_ = checksum_of_output();
  for (; result_posts_ < out_.size(); ++result_posts_) {
    WireHeader head = header_;
    head.kind = NoticeKind::digest;
    head.checksum = result_;
    if (out_[result_posts_].endpoint->post_notice(options_.channel, head, {}) == Posted::full)
      break;
    moved_ = true;
  }
  return take_results() && result_posts_ == out_.size();
}

bool Execution::take_results() {
  if (result_takes_ == in_.size()) return true;
  for (; result_takes_ < in_.size(); ++result_takes_) {
    InEdge& edge = in_[result_takes_];
    const Notice notice = edge.endpoint->front(options_.channel);
    if (notice.header == nullptr) return false;
    const WireHeader& head = *notice.header;
    if (head.kind != NoticeKind::digest || head.operation != header_.operation ||
        head.collective != header_.collective) {
      const Rank peer = edge.endpoint->peer();
      fail(Status(Code::mismatch,
                  fmt::format("{}: rank {} does not compare its result with that of this rank",
                              label(), peer),
                  peer));
      return false;
    }
    edge.result = head.checksum;
    edge.endpoint->release(options_.channel);
    moved_ = true;
  }
  judge_results();
  return state_ == State::running;
}

// The rank at fault is in the minority. Of two ranks nobody knows which one is right.
void Execution::judge_results() {
  std::vector<Rank> others;
  int equal = 0;
  std::uint32_t theirs = kNoChecksum;
  for (const InEdge& edge : in_) {
    if (result_ == kNoChecksum || edge.result == kNoChecksum) continue;
    if (edge.result == result_) {
      ++equal;
    } else {
      others.push_back(edge.endpoint->peer());
      theirs = edge.result;
    }
  }
  if (others.empty()) return;
  const bool is_own = static_cast<std::size_t>(equal) + 1 < others.size();
  std::string ways;
  for (const InEdge& edge : in_) {
    if (edge.endpoint->peer() == others.front()) ways = edge.endpoint->describe();
  }
  fail(
      Status(Code::corrupted,
             fmt::format("{}: the result of rank {} is not that of rank{} {}, which must be equal: "
                         "CRC-32C {:08x}, and {:08x} (over {}){}",
                         label(), options_.rank, others.size() == 1 ? "" : "s",
                         fmt::join(others, ", "), result_, theirs, ways,
                         is_own ? fmt::format("; rank {} stands alone", options_.rank) : ""),
             is_own ? options_.rank : others.front()));
}

}  // namespace weft
