// membership: which ranks of a context are still present.
//
// A Membership learns of changes in two ways. Its context reports what it hears from outside, such
// as a goodbye on a connection or an event of the Store, by mark_left() and mark_died(). And the
// context names processes of this machine to watch(). The end of such a process is noticed through
// a pidfd, within the time of a thread switch and without polling.
//
// The state of a rank changes at most once: from present to left, or from present to died. The
// process of a rank that has left may end in any way; that is no death.
//
// The hot path compares one word: epoch() grows with every change. Only after a change is there a
// reason to call failure() or left(). Memory grows with the number of ranks that are watched or
// gone, not with the size of the job.
//
// Threads: every function may be called by any thread. Callbacks run without a lock held, on the
// thread that makes the change. This is the caller of mark_left(), mark_died() or watch(), or the
// watcher thread of the process. All Memberships share the watcher thread; it runs as long as a
// Membership exists that has called watch(). A callback must not destroy the Membership. No
// callback runs after the destructor.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

class ProcessWatcher;

// Whether an error says that a rank takes part no more.
[[nodiscard]] inline bool is_gone(const Status& status) {
  return status.code() == Code::peer_died || status.code() == Code::peer_left;
}

struct MembershipCallbacks {
  // Called after a change. Wakes sleeping waiters, so that they look at epoch(). It must be short
  // and must not block.
  std::function<void()> on_change;
  // Called when a watched process has ended. Returns true if the rank had said goodbye before, and
  // mark_left() has not reported that yet. A goodbye that travels by socket may arrive after the
  // end of its sender. The callback therefore looks at a word in shared memory, or reads the socket
  // now.
  std::function<bool(Rank)> has_left;
};

class Membership {
 public:
  explicit Membership(MembershipCallbacks callbacks = {});
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  ~Membership();

  // From now on notices the end of the rank's process. The process must be on this machine and in
  // our pid namespace. If it has ended already, the rank counts as died at once; that is no error.
  // A rank can be watched once (else invalid_argument). A rank that is gone is not watched. Another
  // error means that the kernel gives no pidfd (no_permission, unavailable, exhausted). The death
  // of such a rank is reported by events only.
  Status watch(Rank rank, pid_t pid);
  // The same with a descriptor that becomes readable, or hangs up, when the process ends. `pid` is
  // only for messages; -1: the process is in another pid namespace, so its pid means nothing here.
  Status watch(Rank rank, const Fd& life, pid_t pid);

  // The rank ended without leaving; `reason` completes "rank 2 died: …".
  void mark_died(Rank rank, std::string_view reason);
  // The rank said goodbye.
  void mark_left(Rank rank);

  // The number of changes so far. The load is relaxed: a caller that sees a new value finds the
  // change by the functions below.
  [[nodiscard]] Epoch epoch() const { return epoch_.load(std::memory_order_relaxed); }
  // Ok, or peer_died with the rank that died first. Once it is an error it stays the same.
  [[nodiscard]] Status failure() const;
  [[nodiscard]] bool left(Rank rank) const;
  [[nodiscard]] bool died(Rank rank) const;

 private:
  enum class State : std::uint8_t { present, left, died };
  struct Member {
    State state = State::present;
    std::uint64_t watch = 0;  // the watcher's id; the destructor needs it also if the rank is gone
  };

  using Begin = std::function<Result<std::uint64_t>(ProcessWatcher&)>;
  Status watch(Rank rank, pid_t pid, const Begin& begin);
  void process_ended(Rank rank, pid_t pid);
  void settle(Rank rank, State state, Status failure);
  [[nodiscard]] bool is(Rank rank, State state) const;

  const MembershipCallbacks callbacks_;
  std::atomic<Epoch> epoch_{0};
  mutable std::mutex mutex_;  // taken before the watcher's; not held in callbacks
  std::shared_ptr<ProcessWatcher> watcher_;
  std::map<Rank, Member> members_;
  Status failure_;
};

}  // namespace weft
