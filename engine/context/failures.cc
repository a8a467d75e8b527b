// failures: check_liveness(), and ending a context.
#include "engine/context/failures.h"

#include <fmt/core.h>

#include <utility>

namespace weft {
namespace {

// Turns of the interface that take in the last notices of a rank that has left. One turn takes in
// one batch of a network's queue.
constexpr int kLastTurns = 64;

std::string label(const LaneSlot& slot) {
  return fmt::format("{} (operation {})", name(slot.bound_call.call.collective), slot.number);
}

// How often check_liveness() must find that a needed rank has left before the context fails. The rank
// may have left because of the failure of a third rank. The failure notice that names the cause has
// this long to arrive.
constexpr std::uint32_t kLooksAtDeparture = 16;

}  // namespace

void Failures::check_liveness() {
  lane_.force_progress();
  follow_others();
  rank_map_.events().tell_events();
  if (listen() || !lane_.failure().ok() || check_gone()) return;
  if (const Status status = rank_map_.look(); !status.ok()) return fail(status);
  if (rails_ != nullptr) {
    if (const Status status = rails_->ask_again(); !status.ok()) return fail(status);
  }
  if (const Status status = control_.find_unmatched(); !status.ok()) return fail(status);
  const std::int64_t now = now_ns();
  // Failing empties no slot, so the list of running slots stays as it is.
  for (LaneSlot* slot : lane_.running()) {
    if (check_deadline(*slot, now)) return;
    // Peers are not asked about subset operations, because a peer may call its part at any later
    // time. Only the deadline ends these.
    if (slot->is_of_some_ranks) continue;
    // The peers are asked in rounds 1, 2, 4, 8, … and in every 64th round, so that a peer that
    // began late is asked again, but not all the time.
    const std::uint32_t round = ++slot->queries;
    if ((round & (round - 1)) == 0 || round % 64 == 0) control_.ask_missing(*slot);
  }
}

// Fails the context if the operation's deadline has passed, and returns whether it has. The
// deadline counts from the first time that check_liveness() found the operation waiting, so that the
// hot path reads no clock.
bool Failures::check_deadline(LaneSlot& slot, std::int64_t now) {
  if (slot.deadline_ns == 0) slot.deadline_ns = now + config_.deadline_ms * 1'000'000;
  if (now < slot.deadline_ns) return false;
  fail(waited_too_long(slot));
  return true;
}

// Fails the context if a rank has died, or if a needed rank or path is gone. Returns whether the
// context has failed.
bool Failures::check_gone() {
  if (membership_.epoch() != membership_epoch_) {
    membership_epoch_ = membership_.epoch();
    if (Status status = membership_.failure(); !status.ok()) {
      fail(status);
      return true;
    }
  }
  Status lost;
  for (LaneSlot* slot : lane_.running()) {
    if (check_left(*slot)) return true;
    if (lost.ok()) lost = lost_path(*slot);
  }
  if (lost.ok()) {
    lost_ns_ = 0;
    return false;
  }
  const std::int64_t now = now_ns();
  if (lost_ns_ == 0) lost_ns_ = now;
  if (now - lost_ns_ < lost_path_patience_ns(config_)) return false;
  fail(lost);
  return true;
}

// An error if no path works to a rank for which the operation waits, and which has not left.
Status Failures::lost_path(LaneSlot& slot) {
  slot.execution.missing(missing_);
  for (const Execution::Missing& missing : missing_) {
    const Status& failure = missing.connection->endpoint->failure();
    if (failure.ok() || is_gone(*missing.connection)) continue;
    return Status(failure.code(), fmt::format("{}: {}", label(slot), failure.text()),
                  missing.connection->rank);
  }
  return {};
}

// Fails the context if a rank for which the operation waits has left. Returns whether the context
// has failed, for this or another reason.
bool Failures::check_left(LaneSlot& slot) {
  if (missing_and_gone(slot) == kNoRank) return false;
  // Notices that the rank sent before it left may have arrived since the last turn. By now all of
  // them are in memory or in the queues of the network.
  for (int turn = 0; turn < kLastTurns && slot.is_running(); ++turn) lane_.advance_once(slot);
  // A rank that left because it failed has sent a failure notice.
  if (listen() || !lane_.failure().ok()) return true;
  const Rank rank = slot.is_running() ? missing_and_gone(slot) : kNoRank;
  if (rank == kNoRank || ++slot.departures < kLooksAtDeparture) return false;
  fail(Status(
      Code::peer_left,
      fmt::format("{}: rank {} closed its context while this rank needed it", label(slot), rank),
      rank));
  return true;
}

// A rank that has left and for which the operation waits, or kNoRank.
Rank Failures::missing_and_gone(LaneSlot& slot) {
  slot.execution.missing(missing_);
  for (const Execution::Missing& missing : missing_) {
    if (is_gone(*missing.connection)) return missing.connection->rank;
  }
  return kNoRank;
}

bool Failures::is_gone(const PeerConnection& connection) const {
  return connection.endpoint->peer_closed() || membership_.left(connection.rank);
}

// Reads the control notices, and fails the context if they contain or show a failure. Returns
// whether they do.
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
    const Rank rank = missing.connection->rank;
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
                fmt::format("{}: rank {} waited {} ms ({}) for {}", label(slot), config_.rank,
                            config_.deadline_ms, config_.deadline_name,
                            whom.empty() ? std::string("its peers") : whom),
                first);
}

void Failures::fail(const Status& status, bool touched_output) {
  if (!lane_.failure().ok()) return;
  Status failure = status;
  const bool touches = std::ranges::any_of(lane_.running(), [](const LaneSlot* slot) {
    return slot->execution.touched_output() || slot->bound_call.call.stripes > 1;
  });
  if (touched_output || touches) {
    failure = Status(status.code(), fmt::format("{}; the output holds partial data", status.text()),
                     status.rank());
  }
  if (status.code() != Code::closed) {  // each lane is closed for itself
    lane_.trace().add(Event::error, 0, status.rank(), static_cast<std::uint16_t>(status.code()));
    control_.tell_failure(status);
    before_end_(status);
    if (!first_.note(failure)) return lane_.fail(first_.status());
    // A context that goes on says who is gone, by the rank's number in it, when it has healed.
    const bool goes_on = config_.on_death == OnDeath::skip &&
                         (status.code() == Code::peer_died || status.code() == Code::peer_left);
    log(goes_on ? LogLevel::debug : LogLevel::error, failure.to_string());
  }
  lane_.fail(failure);
}

void Failures::follow() {
  control_.tell_failure(first_.status());
  before_end_(first_.status());
  lane_.fail(first_.status());
}

}  // namespace weft
