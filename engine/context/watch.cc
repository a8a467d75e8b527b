// The unlikely: deadlines, deaths, strangers, refusals. Looked at about once per millisecond of
// waiting, never while data flows.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "engine/context/core.h"

namespace weft {
namespace {

// Looks for what a rank that left has said, each of a batch from every queue.
constexpr int kLastLooks = 64;

// A failure as it travels on the control channel, with the text behind it.
struct FailureNote {
  std::uint32_t code;
  std::int32_t rank;
};

}  // namespace

void Context::Core::look_around() {
  stirred_ = true;  // what fails here, or is heard of a path, is not of a turn
  roster_.hub().tell_events();
  check_control();
  if (failed_ || check_gone()) return;
  if (choose_again_ns_ != 0 && !machines_ && !uses_all_rails_) {
    if (const Status status = ask_for_machines(); !status.ok()) return fail_all(status);
  }
  const std::int64_t now = now_ns();
  for (std::size_t i = 0; i < running_.size() && !failed_; ++i) {
    Slot& slot = *running_[i];
    // The deadline counts from the first time that the operation was seen waiting, so the hot path
    // reads no clock.
    if (slot.deadline_ns == 0) slot.deadline_ns = now + config_.deadline_ms * 1'000'000;
    if (now >= slot.deadline_ns) {
      fail_all(waited_too_long(slot));
      return;
    }
    // Which operations of some ranks a peer has still to call nobody knows; the deadline ends them.
    if (slot.is_partial) continue;
    // Rounds 1, 2, 4, 8, … and then every 64th: a peer that was slow to start is asked again, but
    // not for ever.
    const std::uint32_t round = ++slot.queries;
    if ((round & (round - 1)) == 0 || round % 64 == 0) ask_missing(slot);
  }
}

// True if something that is needed is gone.
bool Context::Core::check_gone() {
  if (membership_.epoch() != membership_epoch_) {
    membership_epoch_ = membership_.epoch();
    if (Status status = membership_.failure(); !status.ok()) {
      fail_all(status);
      return true;
    }
  }
  if (check_paths()) return true;
  for (Slot* slot : running_) {
    if (missing_and_gone(*slot) == kNoRank) continue;
    // What it said and did before it left may have come since the last look; all of that is here by
    // now, in memory or in the queues of the network, which give a batch of it at a time.
    for (int look = 0; look < kLastLooks && is_running(*slot); ++look) {
      take_turn();
      slot->execution.advance();
    }
    // It may have left because it failed, and then it has said why.
    check_control();
    if (failed_) return true;
    const Rank rank = is_running(*slot) ? missing_and_gone(*slot) : kNoRank;
    if (rank == kNoRank) continue;
    fail_all(Status(
        Code::peer_left,
        fmt::format("{} (operation {}): rank {} closed its context while this rank needed it",
                    name(slot->invocation.call.collective), slot->number, rank),
        rank));
    return true;
  }
  return false;
}

// True if the last path to a rank that is waited for has failed.
bool Context::Core::check_paths() {
  for (Slot* slot : running_) {
    slot->execution.missing(missing_);
    for (const Execution::Missing& missing : missing_) {
      const Status& failure = missing.contact->endpoint->failure();
      if (failure.ok()) continue;
      fail_all(Status(failure.code(),
                      fmt::format("{} (operation {}): {}", name(slot->invocation.call.collective),
                                  slot->number, failure.text()),
                      missing.contact->rank));
      return true;
    }
  }
  return false;
}

// A rank that the operation waits for and that has left, or kNoRank.
Rank Context::Core::missing_and_gone(Slot& slot) {
  slot.execution.missing(missing_);
  for (const Execution::Missing& missing : missing_) {
    const Rank rank = missing.contact->rank;
    if (missing.contact->endpoint->peer_closed() || membership_.left(rank)) return rank;
  }
  return kNoRank;
}

void Context::Core::check_control() {
  // Bounded: each round answers one peer that asked.
  for (std::size_t round = 0; round < 16; ++round) {
    Result<Endpoint*> asked = interface_->attention();
    if (!asked.ok()) {
      log(LogLevel::warning, asked.status().to_string());
      return;
    }
    if (*asked == nullptr) break;
    if (Result<Contact*> known = connected((*asked)->peer()); known.ok()) handle_control(**known);
  }
}

void Context::Core::handle_control(Contact& contact) {
  Endpoint& endpoint = *contact.endpoint;
  while (true) {
    const Notice notice = endpoint.front(kControlChannel);
    if (notice.header == nullptr) return;
    const WireHeader header = *notice.header;
    if (header.kind == NoticeKind::query) {
      endpoint.release(kControlChannel);
      answer_query(contact, header);
    } else if (header.kind == NoticeKind::failure && header.form == PieceForm::payload &&
               header.bytes >= sizeof(FailureNote) && header.bytes <= kControlBytes) {
      FailureNote note;
      std::memcpy(&note, notice.payload, sizeof note);
      const std::string text(reinterpret_cast<const char*>(notice.payload) + sizeof note,
                             header.bytes - sizeof note);
      endpoint.release(kControlChannel);
      const bool known = note.code >= 1 && note.code <= static_cast<std::uint32_t>(Code::system);
      fail_all(Status(known ? static_cast<Code>(note.code) : Code::closed,
                      fmt::format("{} (told by rank {})", text, contact.rank), note.rank));
    } else {
      endpoint.release(kControlChannel);
    }
  }
}

// A peer waits for us in an operation. If that operation is behind us, or running, and the peer had
// no part in it, the two graphs differ; both ranks learn it here.
void Context::Core::answer_query(Contact& contact, const WireHeader& header) {
  // The number travels modulo 2^32; it is the one nearest to ours.
  const auto ahead =
      static_cast<std::int32_t>(header.operation - static_cast<std::uint32_t>(next_operation_));
  if (ahead >= 0) return;  // we are not there yet
  const std::uint64_t operation = next_operation_ + static_cast<std::uint64_t>(std::int64_t{ahead});
  if (contact.newest != ~std::uint64_t{0} && contact.took_part_in(operation)) return;
  const bool sends = (header.flags & kFlagSends) != 0;
  fail_all(Status(
      Code::mismatch,
      sends ? fmt::format("{} (operation {}): rank {} sends to rank {}, which has no edge from it",
                          name(static_cast<Collective>(header.collective)), operation, contact.rank,
                          config_.rank)
            : fmt::format(
                  "{} (operation {}): rank {} expects data from rank {}, which has no edge to it",
                  name(static_cast<Collective>(header.collective)), operation, contact.rank,
                  config_.rank),
      contact.rank));
}

void Context::Core::ask_missing(Slot& slot) {
  slot.execution.missing(missing_);
  for (const Execution::Missing& missing : missing_) {
    // One question at a time: the control channel keeps room for a failure.
    Endpoint& endpoint = *missing.contact->endpoint;
    if (endpoint.posted(kControlChannel) != endpoint.released(kControlChannel)) continue;
    WireHeader header;
    header.kind = NoticeKind::query;
    header.flags = missing.what == Execution::Missing::What::data ? 0 : kFlagSends;
    header.collective = static_cast<std::uint8_t>(slot.invocation.call.collective);
    header.job = job_;
    header.context = number_;
    header.operation = slot.invocation.call.operation;
    (void)endpoint.post_notice(kControlChannel, header, {});
  }
}

Status Context::Core::waited_too_long(Slot& slot) {
  slot.execution.missing(missing_);
  std::string whom;
  Rank first = kNoRank;
  for (const Execution::Missing& missing : missing_) {
    const Rank rank = missing.contact->rank;
    if (first == kNoRank) first = rank;
    if (!whom.empty()) whom += ", ";
    switch (missing.what) {
      case Execution::Missing::What::data:
        whom += fmt::format("data from rank {}", rank);
        break;
      case Execution::Missing::What::credit:
        whom += fmt::format("rank {} to arrive", rank);
        break;
      case Execution::Missing::What::read:
        whom += fmt::format("rank {} to read its data", rank);
        break;
    }
  }
  return Status(Code::timed_out,
                fmt::format("{} (operation {}): rank {} waited {} ms (WEFT_DEADLINE_MS) for {}",
                            name(slot.invocation.call.collective), slot.number, config_.rank,
                            config_.deadline_ms, whom.empty() ? std::string("its peers") : whom),
                first);
}

// The first failure is the context's for ever: it ends all operations, and the peers are told.
void Context::Core::fail_all(const Status& status, bool touched) {
  if (failed_) return;
  const LogScope scope(voice_);
  failed_ = true;
  for (Slot* slot : running_) touched |= slot->execution.touched_output();
  failure_ = touched ? Status(status.code(),
                              fmt::format("{}; the output holds partial data", status.text()),
                              status.rank())
                     : status;
  if (status.code() != Code::closed) {
    ring_->add(Event::error, 0, status.rank(), static_cast<std::uint16_t>(status.code()));
    log(LogLevel::error, fmt::format("{}", failure_.to_string()));
    tell_failure(status);
  }
  for (Slot* slot : running_) slot->execution.fail(failure_);
  for (auto* queue : {&queue_, &partial_queue_}) {
    for (const auto& operation : *queue) {
      in_flight_.fetch_sub(1, std::memory_order_relaxed);
      complete(operation, failure_);
    }
    queue->clear();
  }
}

void Context::Core::tell_failure(const Status& status) {
  const FailureNote note{static_cast<std::uint32_t>(status.code()), status.rank()};
  std::string payload(reinterpret_cast<const char*>(&note), sizeof note);
  payload += status.text().substr(0, kControlBytes - sizeof note);
  WireHeader header;
  header.kind = NoticeKind::failure;
  header.form = PieceForm::payload;  // what is not said to be one is not kept by a bond
  header.job = job_;
  header.context = number_;
  header.bytes = static_cast<std::uint32_t>(payload.size());
  for (const auto& [rank, contact] : contacts_) {
    (void)contact->endpoint->post_notice(kControlChannel, header,
                                         std::as_bytes(std::span(payload.data(), payload.size())));
  }
}

}  // namespace weft
