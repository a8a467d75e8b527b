// Membership: the states of ranks. How the end of a process is noticed is in process_watcher.
#include "engine/membership/membership.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "engine/membership/process_watcher.h"

namespace weft {

Membership::Membership(MembershipCallbacks callbacks) : callbacks_(std::move(callbacks)) {}

// Watches are ended without the lock. unwatch() waits for a running callback, which may need the
// lock.
Membership::~Membership() {
  std::vector<std::uint64_t> watches;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [rank, member] : members_) watches.push_back(member.watch);
  }
  for (const std::uint64_t watch : watches) {
    if (watch != ProcessWatcher::kNoWatch) watcher_->unwatch(watch);
  }
}

Status Membership::watch(Rank rank, pid_t pid) {
  return watch(rank, pid, [&](ProcessWatcher& watcher) {
    return watcher.watch(pid, [this, rank, pid] { process_ended(rank, pid); });
  });
}

Status Membership::watch(Rank rank, const Fd& life, pid_t pid) {
  // If there was no descriptor for it, the error says why.
  if (!life.valid() && pid > 0) return watch(rank, pid);
  return watch(rank, pid, [&](ProcessWatcher& watcher) -> Result<std::uint64_t> {
    Fd copy(::fcntl(life.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy.valid()) return system_error("nothing tells when its process ends", errno);
    return watcher.watch(std::move(copy), [this, rank, pid] { process_ended(rank, pid); });
  });
}

Status Membership::watch(Rank rank, pid_t pid, const Begin& begin) {
  {
    // The lock is held until the watch is noted. If the end of the process is reported at once, the
    // report waits for this lock in settle().
    const std::lock_guard lock(mutex_);
    Member& member = members_[rank];
    if (member.state != State::present) return {};
    if (member.watch != ProcessWatcher::kNoWatch) {
      return Status(Code::invalid_argument, fmt::format("rank {} is watched already", rank), rank);
    }
    if (watcher_ == nullptr) {
      WEFT_ASSIGN(watcher_, ProcessWatcher::shared());
    }
    const Result<std::uint64_t> watch = begin(*watcher_);
    if (watch.ok()) {
      member.watch = *watch;
      return {};
    }
    const Status error = watch.status();
    if (error.code() != Code::peer_died) {
      return Status(error.code(), fmt::format("rank {}: {}", rank, error.text()), rank);
    }
  }
  process_ended(rank, pid);
  return {};
}

void Membership::mark_died(Rank rank, std::string_view reason) {
  settle(rank, State::died,
         Status(Code::peer_died, fmt::format("rank {} died: {}", rank, reason), rank));
}

void Membership::mark_left(Rank rank) {
  settle(rank, State::left, {});
}

void Membership::process_ended(Rank rank, pid_t pid) {
  if (callbacks_.has_left && callbacks_.has_left(rank)) return mark_left(rank);
  const std::string process = pid < 0 ? "" : fmt::format(" (process {})", pid);
  settle(rank, State::died,
         Status(Code::peer_died,
                fmt::format("rank {}{} ended without leaving the job", rank, process), rank));
}

// Changes the state of a rank that is present; later changes are ignored and cause no callback. The
// function does not wait for a running callback, so mark_left() and mark_died() may be called under
// locks that the callbacks take.
void Membership::settle(Rank rank, State state, Status failure) {
  std::uint64_t watch = ProcessWatcher::kNoWatch;
  {
    const std::lock_guard lock(mutex_);
    Member& member = members_[rank];
    if (member.state != State::present) return;
    member.state = state;
    watch = member.watch;
    if (failure_.ok()) failure_ = std::move(failure);
    epoch_.fetch_add(1, std::memory_order_relaxed);
  }
  if (watch != ProcessWatcher::kNoWatch) watcher_->forget(watch);
  if (callbacks_.on_change) callbacks_.on_change();
}

Status Membership::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool Membership::left(Rank rank) const {
  return is(rank, State::left);
}
bool Membership::died(Rank rank) const {
  return is(rank, State::died);
}

bool Membership::is(Rank rank, State state) const {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(rank);
  return found != members_.end() && found->second.state == state;
}

}  // namespace weft
