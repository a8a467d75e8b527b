// locks: driving several locks as one.
#include "engine/window/locks.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "verbs/base/base.h"

namespace weft::window {
namespace {

// The number of the interface that a mutex belongs to, in the order in which its owner opened them.
constexpr int kHome = 0;
constexpr int kMostMembers = 16;  // of a bond

std::vector<Lock*> locks_of(const std::vector<Hand*>& hands) {
  std::vector<Lock*> locks;
  locks.reserve(hands.size());
  for (Hand* hand : hands) locks.push_back(&hand->lock);
  return locks;
}

// Whether the lock has ended because nobody answers for its word any more.
bool ends(Hand& hand, const CheckAlive& check_alive, Gone gone) {
  const LockState state = hand.lock.state();
  if (state == LockState::idle || state == LockState::held) return false;
  if (const Status alive = check_alive(hand.owner, &hand.bond); !alive.ok()) {
    const bool fails = state == LockState::taking && gone == Gone::fail;
    hand.lock.lose(fails ? alive : Status());
    return true;
  }
  // Before its deadline a call waits for news: who fails may have died or left.
  if (!hand.lock.is_settling() || hand.bond.failure().ok()) return false;
  hand.lock.lose({});
  return true;
}

void drive(Hand& hand, const CheckAlive& check_alive, Gone gone, std::int64_t now_ns) {
  if (ends(hand, check_alive, gone)) return;
  Lock& lock = hand.lock;
  const bool waits = lock.state() == LockState::taking && !lock.seen().free();
  if (waits && !check_alive(lock.seen().holder, nullptr).ok())
    (void)lock.take_over(lock.seen());  // of several who try, one succeeds
  hand.advance(now_ns);
}

}  // namespace

void Hand::work_ended(const Status& status) {
  lock.completed(status, now_ns());
}

// Where the lane of the owner swaps, every path will do. Else the mutex belongs to one interface.
Endpoint* Hand::way() const {
  Endpoint* const home = bond.over(kHome);
  if (home != nullptr || !bond.properties().work_needs_peer) return home;
  for (int member = kHome + 1; member < kMostMembers; ++member) {
    if (Endpoint* const other = bond.over(member)) return other;
  }
  return nullptr;
}

// The path may be another one after each turn. While there is none, only the deadline counts.
void Hand::advance(std::int64_t now_ns) {
  Endpoint* const path = lock.busy() ? nullptr : way();
  if (path != nullptr) lock.rejoin(*path);
  if (path != nullptr || lock.is_late(now_ns)) lock.advance(now_ns);
}

Locks::Locks(std::vector<Hand*> hands, const CheckAlive& check_alive, Gone gone)
    : hands_(std::move(hands)), check_alive_(check_alive), gone_(gone), group_(locks_of(hands_)) {}

Status Locks::acquire(std::int64_t deadline_ns) {
  late_ = {};
  deadline_ns_ = deadline_ns;
  waits_ = std::ranges::any_of(hands_, [](Hand* hand) { return hand->lock.is_settling(); });
  return waits_ ? Status() : group_.acquire(deadline_ns);
}

void Locks::wait_until_settled(std::int64_t now_ns) {
  const auto it = std::ranges::find_if_not(hands_, &Hand::is_idle);
  if (it == hands_.end()) {
    waits_ = false;
    late_ = group_.acquire(deadline_ns_);
  } else if (now_ns >= deadline_ns_) {
    waits_ = false;
    const Rank owner = (*it)->owner;
    late_ = Status(Code::timed_out,
                   fmt::format("the lock of rank {} was not taken in time: its owner has not "
                               "answered what was asked before",
                               owner),
                   owner);
  }
}

void Locks::advance() {
  const std::int64_t now = now_ns();
  if (waits_) wait_until_settled(now);
  if (waits_) return;
  for (Hand* hand : hands_) drive(*hand, check_alive_, gone_, now);
  group_.advance();
}

std::vector<Hand*> Locks::settling() const {
  if (!late_.ok()) return {};  // an earlier call's, which has its Settling
  std::vector<Hand*> left = hands_;
  std::erase_if(left, [](Hand* hand) { return !hand->lock.is_settling(); });
  return left;
}

bool Settling::advance() {
  const std::size_t before = hands_.size();
  const std::int64_t now = now_ns();
  for (Hand* hand : hands_) drive(*hand, check_alive_, Gone::pass, now);
  std::erase_if(hands_, &Hand::is_idle);
  return hands_.size() != before;
}

}  // namespace weft::window
