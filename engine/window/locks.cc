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
  Endpoint* const path = lock.busy() ? nullptr : bond.over(kHome);
  if (path != nullptr) lock.rejoin(*path);
  if (path != nullptr || lock.is_late(now_ns)) lock.advance(now_ns);
}

Locks::Locks(std::vector<Hand*> hands, const CheckAlive& check_alive, Gone gone)
    : hands_(std::move(hands)), check_alive_(check_alive), gone_(gone), group_(locks_of(hands_)) {}

bool Locks::ends(Hand& hand) const {
  const LockState state = hand.lock.state();
  if (state == LockState::idle || state == LockState::held) return false;
  const Status alive = check_alive_(hand.owner, &hand.bond);
  if (alive.ok()) return false;
  const bool fails = state == LockState::taking && gone_ == Gone::fail;
  hand.lock.lose(fails ? alive : Status());
  return true;
}

void Locks::advance() {
  const std::int64_t now = now_ns();
  for (Hand* hand : hands_) {
    if (ends(*hand)) continue;
    Lock& lock = hand->lock;
    const bool waits = lock.state() == LockState::taking && !lock.seen().free();
    if (waits && !check_alive_(lock.seen().holder, nullptr).ok())
      (void)lock.take_over(lock.seen());  // of several who try, one succeeds
    hand->advance(now);
  }
  group_.advance();
}

}  // namespace weft::window
