// Several locks as one: each is begun when the one before is held.
#include <fmt/core.h>

#include <algorithm>

#include "verbs/lock/lock.h"

namespace weft {

Status LockGroup::acquire(std::int64_t deadline_ns) {
  const auto is_idle = [](const Lock* lock) { return lock->state() == LockState::idle; };
  if (state_ != LockState::idle || !std::ranges::all_of(locks_, is_idle)) {
    return Status(Code::invalid_argument,
                  fmt::format("a group of {} locks cannot be acquired: not all of them are idle",
                              locks_.size()));
  }
  state_ = LockState::taking;
  status_ = {};
  begun_ = 0;
  deadline_ns_ = deadline_ns;
  begin_next();
  return {};
}

Status LockGroup::release(std::int64_t deadline_ns) {
  if (state_ != LockState::held) {
    return Status(Code::invalid_argument,
                  fmt::format("a group of {} locks is not held", locks_.size()));
  }
  deadline_ns_ = deadline_ns;
  give_back({});
  return {};
}

void LockGroup::begin_next() {
  if (begun_ == locks_.size()) {
    state_ = LockState::held;
    return;
  }
  const Status begun = locks_[begun_++]->acquire(deadline_ns_);
  if (!begun.ok()) give_back(begun);
}

void LockGroup::give_back(const Status& why) {
  state_ = LockState::releasing;
  status_ = why;
  for (Lock* lock : locks_) {
    if (lock->state() == LockState::held) (void)lock->release(deadline_ns_);
  }
}

void LockGroup::advance() {
  if (state_ == LockState::taking) {
    const Lock& last = *locks_[begun_ - 1];
    const bool was_lost = last.state() == LockState::idle && last.status().ok();
    if (last.state() == LockState::held || was_lost)
      begin_next();
    else if (last.state() != LockState::taking)
      give_back(last.status());
  }
  if (state_ != LockState::releasing) return;
  for (const Lock* lock : locks_) {
    if (lock->state() != LockState::idle && !lock->is_settling()) return;
  }
  for (const Lock* lock : locks_) {
    if (status_.ok()) status_ = lock->status();
  }
  state_ = LockState::idle;
}

}  // namespace weft
