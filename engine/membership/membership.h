// membership: who of the ranks that concern us is still there.
//
// A context tells its Membership what it learns from outside (a goodbye on a connection, an event
// of the Store) by mark_left() and mark_died(), and names the local processes to watch; their end
// is noticed through pidfds, within the time of a thread switch and without any polling. Each rank
// moves at most once: from present to left or to died. A rank that left may end as it likes; that
// is no death.
//
// The hot path compares one word: epoch() moves with every change, and only then is there a reason
// to ask failure() or left(). Memory grows with the ranks watched or gone, not with the size of the
// job.
//
// Threads: every function may be called by any thread. The callbacks run without a lock held, on
// the thread that makes the change: the caller of mark_… or watch(), or the process's watcher
// thread, which all Memberships share and which lives while one of them does that has called
// watch(). A Membership must not be destroyed by a callback. After the destructor no callback runs.
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

struct MembershipCallbacks {
  // Something changed: wake the sleepers, so that they look at epoch(). Short; does not block.
  std::function<void()> on_change;
  // A watched process has ended. Did its rank leave before that, in a way that mark_left() has not
  // been told yet? A goodbye that travels by socket may arrive after the end of its sender, so
  // whoever says goodbye that way answers this from a word in shared memory, or by reading the
  // socket now.
  std::function<bool(Rank)> has_left;
};

class Membership {
 public:
  explicit Membership(MembershipCallbacks callbacks = {});
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  ~Membership();

  // Notices the end of a process of this machine (and of our pid namespace) in which a rank lives,
  // from now on: a process that has ended already is a death at once and no error. A rank is
  // watched once (else invalid_argument); one that is gone is not watched any more. An error means
  // that the kernel gives no pidfd (no_permission, unavailable, exhausted): the rank is then known
  // by events only.
  Status watch(Rank rank, pid_t pid);

  // The rank ended without leaving; `reason` completes "rank 2 died: …".
  void mark_died(Rank rank, std::string_view reason);
  // The rank said goodbye.
  void mark_left(Rank rank);

  // How many changes there were. Relaxed: who sees a new value finds the change by the calls below.
  [[nodiscard]] Epoch epoch() const { return epoch_.load(std::memory_order_relaxed); }
  // Ok, or for ever the first death: peer_died, with the rank.
  [[nodiscard]] Status failure() const;
  [[nodiscard]] bool left(Rank rank) const;
  [[nodiscard]] bool died(Rank rank) const;

 private:
  enum class State : std::uint8_t { present, left, died };
  struct Member {
    State state = State::present;
    std::uint64_t watch = 0;  // of the watcher; kept when the rank is gone, for the destructor
  };

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
