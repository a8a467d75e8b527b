// control: the notices of the control channel.
#include "engine/context/control.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "engine/context/live_rails.h"

namespace weft {
namespace {

// The most peers whose control notices one listen() reads.
constexpr int kMostAnswers = 16;

constexpr std::string_view kToldBy = " (told by rank";

// The payload of a failure notice. The text of the failure follows it.
struct FailureNote {
  std::uint32_t code;
  std::int32_t rank;
};

Status failure_in(const Notice& notice, Rank from) {
  FailureNote note;
  std::memcpy(&note, notice.payload, sizeof note);
  const std::string text(reinterpret_cast<const char*>(notice.payload) + sizeof note,
                         notice.header->bytes - sizeof note);
  // Who was told itself passes on who told it first.
  const bool is_passed_on = text.find(kToldBy) != std::string::npos;
  const bool is_known = note.code >= 1 && note.code <= static_cast<std::uint32_t>(kLastCode);
  return Status(is_known ? static_cast<Code>(note.code) : Code::closed,
                is_passed_on ? text : fmt::format("{}{} {})", text, kToldBy, from), note.rank);
}

bool is_failure(const WireHeader& header) {
  return header.kind == NoticeKind::failure && header.form == PieceForm::payload &&
         header.bytes >= sizeof(FailureNote) && header.bytes <= kControlBytes;
}

}  // namespace

WireHeader Control::header_of(NoticeKind kind) const {
  WireHeader header;
  header.kind = kind;
  header.job = identity_.job;
  header.context = identity_.context;
  return header;
}

Status Control::listen() {
  if (rails_ != nullptr) rails_->advance();
  for (int answered = 0; answered < kMostAnswers; ++answered) {
    Result<Endpoint*> asked = lane_.interface().attention();
    if (!asked.ok()) {
      if (!std::exchange(is_deaf_, true)) log(LogLevel::warning, asked.status().to_string());
      return {};
    }
    is_deaf_ = false;
    if (*asked == nullptr) return {};
    Result<PeerConnection*> known = peers_.connected((*asked)->peer());
    if (known.ok()) WEFT_RETURN_IF_ERROR(listen_to(**known));
  }
  return {};
}

Status Control::listen_to(PeerConnection& connection) {
  Endpoint& endpoint = *connection.endpoint;
  while (true) {
    const Notice notice = endpoint.front(kControlChannel);
    if (notice.header == nullptr) return {};
    const WireHeader header = *notice.header;
    const Status told = is_failure(header) ? failure_in(notice, connection.rank) : Status();
    if (header.kind == NoticeKind::rails && rails_ != nullptr)
      rails_->hear(connection.rank, notice);
    endpoint.release(kControlChannel);
    WEFT_RETURN_IF_ERROR(told);
    if (header.kind == NoticeKind::query) WEFT_RETURN_IF_ERROR(answer(connection, header));
  }
}

// The error for an edge that the peer has and this rank has not: from the peer to this rank if
// `sends`, else from this rank to the peer.
Status Control::no_edge(const std::string& what, bool sends, Rank peer) const {
  return Status(Code::mismatch,
                sends
                    ? fmt::format("{}: rank {} sends to rank {}, which has no edge from it", what,
                                  peer, config_.rank)
                    : fmt::format("{}: rank {} expects data from rank {}, which has no edge to it",
                                  what, peer, config_.rank),
                peer);
}

// Handles the query of a peer that waits for this rank in an operation. If this rank has begun the
// operation and has no edge with the peer in it, the two graphs differ. The returned error fails
// this context, which then tells its peers.
Status Control::answer(PeerConnection& connection, const WireHeader& header) {
  const std::uint64_t next = lane_.admission().next_operation();
  // The number travels modulo 2^32; the operation meant is the one nearest to this rank's next one.
  const auto ahead = static_cast<std::int32_t>(header.operation - static_cast<std::uint32_t>(next));
  if (ahead >= 0) return {};  // this rank has not begun the operation
  const std::uint64_t operation = next + static_cast<std::uint64_t>(std::int64_t{ahead});
  const std::string what =
      fmt::format("{} (operation {})", name(static_cast<Collective>(header.collective)), operation);
  if (connection.newest != ~std::uint64_t{0} && connection.took_part_in(operation))
    return compare(lane_.admission().slot_of(operation), header, connection.rank, what);
  return no_edge(what, (header.flags & kFlagSends) != 0, connection.rank);
}

// Compares the calls of two ranks that do have an edge. They may call different collectives, or the
// same one with different roots, operators or algorithms; the peer then waits in vain.
Status Control::compare(const LaneSlot* slot, const WireHeader& header, Rank from,
                        const std::string& what) {
  if (slot == nullptr) return {};
  const Call& call = slot->bound_call.call;
  const auto collective = static_cast<Collective>(header.collective);
  if (call.collective != collective) {
    return Status(Code::mismatch,
                  fmt::format("{}: rank {} calls {}, this rank {}", what, from, name(collective),
                              name(call.collective)),
                  from);
  }
  if (call.agreement == header.agreement) return {};
  return Status(
      Code::mismatch,
      fmt::format("{}: {}", what, disagreement(collective, call.agreement, from, header.agreement)),
      from);
}

Status Control::find_unmatched() const {
  for (const auto& slot : lane_.admission().slots()) {
    if (slot->number != LaneSlot::kNoOperation) WEFT_RETURN_IF_ERROR(find_unmatched(*slot));
  }
  return {};
}

Status Control::find_unmatched(const LaneSlot& slot) const {
  const auto next = static_cast<std::uint32_t>(lane_.admission().next_operation());
  const Call& call = slot.bound_call.call;
  // The peers of an operation that has ended belong to a plan that may have left the cache.
  const bool is_running = slot.is_running();
  for (const auto& [rank, connection] : peers_.all()) {
    const Notice notice = connection->endpoint->front(slot.channel);
    if (notice.header == nullptr) continue;
    const WireHeader& header = *notice.header;
    const auto ahead = static_cast<std::int32_t>(header.operation - next);
    const bool is_awaited =
        is_running && (std::ranges::find(call.in, connection.get()) != call.in.end() ||
                       std::ranges::find(call.out, connection.get()) != call.out.end());
    if (ahead >= 0 || is_awaited) continue;
    const std::string what = fmt::format(
        "{} (operation {})", name(static_cast<Collective>(header.collective)), header.operation);
    WEFT_RETURN_IF_ERROR(
        compare(header.operation == call.operation ? &slot : nullptr, header, rank, what));
    return no_edge(what, header.kind != NoticeKind::credit, rank);
  }
  return {};
}

void Control::ask_missing(LaneSlot& slot) {
  slot.execution.missing(missing_);
  for (const Execution::Missing& missing : missing_) {
    // At most one query to a peer is unreleased, so that its control channel has room for a
    // failure notice.
    Endpoint& endpoint = *missing.connection->endpoint;
    if (endpoint.posted(kControlChannel) != endpoint.released(kControlChannel)) continue;
    WireHeader header = header_of(NoticeKind::query);
    header.flags = missing.what == Execution::Missing::What::data ? 0 : kFlagSends;
    header.collective = static_cast<std::uint8_t>(slot.bound_call.call.collective);
    header.agreement = slot.bound_call.call.agreement;
    header.operation = slot.bound_call.call.operation;
    (void)endpoint.post_notice(kControlChannel, header, {});
  }
}

void Control::tell_failure(const Status& status) {
  const FailureNote note{static_cast<std::uint32_t>(status.code()), status.rank()};
  std::string payload(reinterpret_cast<const char*>(&note), sizeof note);
  payload += status.text().substr(0, kControlBytes - sizeof note);
  WireHeader header = header_of(NoticeKind::failure);
  header.form = PieceForm::payload;  // else a bond would not keep the payload
  header.bytes = static_cast<std::uint32_t>(payload.size());
  for (const auto& [rank, connection] : peers_.all()) {
    (void)connection->endpoint->post_notice(
        kControlChannel, header, std::as_bytes(std::span(payload.data(), payload.size())));
  }
}

}  // namespace weft
