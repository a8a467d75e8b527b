// locks: driving several locks as one.
#include "engine/window/locks.h"

#include <utility>

#include "verbs/base/base.h"

namespace weft::window {
namespace {

// The number of the interface that a mutex belongs to, in the order in which its owner opened them.
constexpr int kHome = 0;

std::vector<Lock*> locks_of(const std::vector<Hand*>& hands) {
  std::vector<Lock*> locks;
  locks.reserve(hands.size());
  for (Hand* hand : hands) locks.push_back(&hand->lock);
  return locks;
}

}  // namespace

void Hand::work_ended(const Status& status) {
  lock.completed(status, now_ns());
}

// The path may be another one after each turn. While there is none, only the deadline counts.
void Hand::advance(std::int64_t now_ns) {
  Endpoint* const path = lock.busy() ? nullptr : bond_.over(kHome);
  if (path != nullptr) lock.rejoin(*path);
  if (path != nullptr || lock.is_late(now_ns)) lock.advance(now_ns);
}

Locks::Locks(std::vector<Hand*> hands, std::function<bool(Rank)> has_died)
    : hands_(std::move(hands)), has_died_(std::move(has_died)), group_(locks_of(hands_)) {}

void Locks::advance() {
  const std::int64_t now = now_ns();
  for (Hand* hand : hands_) {
    Lock& lock = hand->lock;
    if (lock.state() == LockState::taking && !lock.seen().free() && has_died_(lock.seen().holder))
      (void)lock.take_over(lock.seen());  // of several who try, one succeeds
    hand->advance(now);
  }
  group_.advance();
}

}  // namespace weft::window
