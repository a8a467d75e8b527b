// failures: the slow look around, and the end of a context.
#include "engine/context/failures.h"

#include <fmt/core.h>

#include <utility>

namespace weft {
namespace {

// Turns of the interface that let in what a rank said before it left. A network's queue gives a batch
// at each turn.
constexpr int kLastTurns = 64;

std::string label(const LaneSlot& slot) {
  return fmt::format("{} (operation {})", name(slot.invocation.call.collective), slot.number);
}

// Looks that must find a needed rank gone. A rank that left may have failed because of a third rank.
// That rank's note names the cause, and gets this long to arrive.
constexpr std::uint32_t kLooksAtDeparture = 16;

}  // namespace

void Failures::look_around() {
  lane_.stir();
  roster_.hub().tell_events();
  if (listen() || lane_.has_failed() || check_gone()) return;
  if (const Status status = rails_.ask_again(); !status.ok()) return fail(status);
  if (const Status status = control_.find_stray(); !status.ok()) return fail(status);
  const std::int64_t now = now_ns();
  // Failing empties no slot, so the list of running slots stays as it is.
  for (LaneSlot* slot : lane_.running()) {
    if (check_deadline(*slot, now)) return;
    // Nobody knows which operations of some ranks a peer has still to call; the deadline ends them.
    if (slot->is_of_some_ranks) continue;
    // The peers are asked in rounds 1, 2, 4, 8, … and then in every 64th, so a peer that was slow to
    // start is asked again, but not all the time.
    const std::uint32_t round = ++slot->queries;
    if ((round & (round - 1)) == 0 || round % 64 == 0) control_.ask_missing(*slot);
  }
}

// The deadline counts from the first time that the operation was seen waiting, so the hot path reads
// no clock. True if the context failed.
bool Failures::check_deadline(LaneSlot& slot, std::int64_t now) {
  if (slot.deadline_ns == 0) slot.deadline_ns = now + config_.deadline_ms * 1'000'000;
  if (now < slot.deadline_ns) return false;
  fail(waited_too_long(slot));
  return true;
}

// True if the context failed, because something that is needed is gone.
bool Failures::check_gone() {
  if (membership_.epoch() != membership_epoch_) {
    membership_epoch_ = membership_.epoch();
    if (Status status = membership_.failure(); !status.ok()) {
      fail(status);
      return true;
    }
  }
  if (check_paths()) return true;
  for (LaneSlot* slot : lane_.running()) {
    if (check_left(*slot)) return true;
  }
  return false;
}

// True if the last path to a rank that is waited for has failed.
bool Failures::check_paths() {
  for (LaneSlot* slot : lane_.running()) {
    slot->execution.missing(missing_);
    for (const Execution::Missing& missing : missing_) {
      const Status& failure = missing.contact->endpoint->failure();
      if (failure.ok()) continue;
      fail(Status(failure.code(), fmt::format("{}: {}", label(*slot), failure.text()),
                  missing.contact->rank));
      return true;
    }
  }
  return false;
}

// True if a rank that the operation waits for has left, or the context failed for another reason.
bool Failures::check_left(LaneSlot& slot) {
  if (missing_and_gone(slot) == kNoRank) return false;
  // What the rank said and did before it left may have come since the last look. All of that is here
  // by now, in memory or in the queues of the network.
  for (int turn = 0; turn < kLastTurns && slot.is_running(); ++turn) lane_.advance_once(slot);
  // A rank that left because it failed has said why.
  if (listen() || lane_.has_failed()) return true;
  const Rank rank = slot.is_running() ? missing_and_gone(slot) : kNoRank;
  if (rank == kNoRank || ++slot.departures < kLooksAtDeparture) return false;
  fail(Status(
      Code::peer_left,
      fmt::format("{}: rank {} closed its context while this rank needed it", label(slot), rank),
      rank));
  return true;
}

// A rank that the operation waits for and that has left, or kNoRank.
Rank Failures::missing_and_gone(LaneSlot& slot) {
  slot.execution.missing(missing_);
  for (const Execution::Missing& missing : missing_) {
    const Rank rank = missing.contact->rank;
    if (missing.contact->endpoint->peer_closed() || membership_.left(rank)) return rank;
  }
  return kNoRank;
}

// True if the context failed by what a peer has said.
bool Failures::listen() {
  const Status told = control_.listen();
  if (told.ok()) return false;
  fail(told);
  return true;
}

Status Failures::waited_too_long(LaneSlot& slot) {
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
  return Status(
      Code::timed_out,
      fmt::format("{}: rank {} waited {} ms (WEFT_DEADLINE_MS) for {}", label(slot), config_.rank,
                  config_.deadline_ms, whom.empty() ? std::string("its peers") : whom),
      first);
}

void Failures::fail(const Status& status, bool touched_output) {
  if (lane_.has_failed()) return;
  Status failure = status;
  if (touched_output || lane_.touches_output()) {
    failure = Status(status.code(), fmt::format("{}; the output holds partial data", status.text()),
                     status.rank());
  }
  if (status.code() != Code::closed) {
    lane_.trace().add(Event::error, 0, status.rank(), static_cast<std::uint16_t>(status.code()));
    log(LogLevel::error, failure.to_string());
    control_.tell_failure(status);
  }
  lane_.fail(failure);
}

}  // namespace weft
