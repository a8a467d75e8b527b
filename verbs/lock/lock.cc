// One rank's hand on a lock word: what it asks for next, and what an answer, or none, means.
#include "verbs/lock/lock.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// Ranks that share a seed still draw different waits.
constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;

// Answers that say that nothing was done and nothing will be, given that the path still works.
bool is_final(Code code) {
  return code == Code::invalid_argument || code == Code::no_permission || code == Code::closed;
}

}  // namespace

std::uint64_t pack(const LockWord& word) {
  const auto holder = static_cast<std::uint64_t>(word.holder + 1) % (1U << kHolderBits);
  const std::uint64_t attempt = word.attempt % (1U << kAttemptBits);
  return holder << (kAttemptBits + kEpochBits) | attempt << kEpochBits | word.epoch;
}

// Any word is one, whoever wrote it; a holder that no job has is neither ours nor dead.
LockWord unpack(std::uint64_t word) {
  LockWord unpacked;
  unpacked.holder = static_cast<Rank>(word >> (kAttemptBits + kEpochBits)) - 1;
  unpacked.attempt = static_cast<std::uint32_t>(word >> kEpochBits) % (1U << kAttemptBits);
  unpacked.epoch = static_cast<std::uint32_t>(word);
  return unpacked;
}

Lock::Lock(Endpoint& path, const RemoteBuffer& word, LockAttempts& attempts,
           const LockOptions& options)
    : path_(&path),
      word_(word),
      attempts_(attempts),
      options_(options),
      random_(static_cast<std::uint32_t>(
          ((options.seed + static_cast<std::uint64_t>(options.self) + 1) * kGoldenRatio) >> 32)) {}

Status Lock::acquire(std::int64_t deadline_ns) {
  if (options_.self < 0 || options_.self >= kMostLockRanks) {
    return Status(Code::invalid_argument, fmt::format("rank {} fits in no lock word; {} ranks do",
                                                      options_.self, kMostLockRanks));
  }
  if (state_ != LockState::idle) {
    return Status(Code::invalid_argument,
                  fmt::format("the lock of rank {} cannot be acquired: it is {}", path_->peer(),
                              state_ == LockState::held || state_ == LockState::taking
                                  ? "held or being taken already"
                                  : "not given back yet"),
                  path_->peer());
  }
  state_ = LockState::taking;
  status_ = {};
  attempt_ = attempts_.next();
  deadline_ns_ = deadline_ns;
  wait_ns_ = options_.shortest_wait_ns;
  again_ns_ = 0;
  answered_ = inherited_ = is_given_up_ = false;
  dead_.reset();
  return {};
}

Status Lock::take_over(const LockWord& dead) {
  if (state_ != LockState::taking || dead.free() || dead.holder >= kMostLockRanks) {
    return Status(
        Code::invalid_argument,
        fmt::format("the lock of rank {} cannot be taken over from {}: {}", path_->peer(),
                    dead.holder, state_ == LockState::taking ? "no rank" : "it is not being taken"),
        path_->peer());
  }
  dead_ = dead;
  if (seen_ == dead) again_ns_ = 0;
  return {};
}

Status Lock::release(std::int64_t deadline_ns) {
  if (state_ != LockState::held) {
    return Status(Code::invalid_argument,
                  fmt::format("the lock of rank {} is not held", path_->peer()), path_->peer());
  }
  state_ = LockState::releasing;
  deadline_ns_ = deadline_ns;
  wait_ns_ = options_.shortest_wait_ns;
  again_ns_ = 0;
  return {};
}

void Lock::lose(const Status& why) {
  state_ = LockState::idle;
  in_doubt_ = false;
  is_stale_ = in_flight_;
  if (status_.ok()) status_ = why;
}

void Lock::rejoin(Endpoint& path) {
  if (path_ == &path) return;
  path_ = &path;
  again_ns_ = 0;
}

void Lock::advance(std::int64_t now_ns) {
  if (is_late(now_ns)) give_up();
  if (now_ns < next_ns()) return;
  if (!in_doubt_) choose_swap();
  posted_on_ = path_;
  in_flight_ = path_->post_compare_swap(word_, pack(expected_), pack(desired_), &found_,
                                        options_.ticket) == Posted::posted;
}

// Expects only what was seen: a guess of what comes next could be lost, and match when it does
// come.
void Lock::choose_swap() {
  expected_ = state_ == LockState::releasing ? desired_ : seen_;
  if (state_ == LockState::releasing)
    desired_ = {kNoRank, 0, expected_.epoch + 1};
  else if (expected_.free())
    desired_ = {options_.self, attempt_, expected_.epoch};
  else if (dead_ == expected_)
    desired_ = {options_.self, attempt_, expected_.epoch + 1};
  else
    desired_ = expected_;
}

void Lock::completed(const Status& status, std::int64_t now_ns) {
  in_flight_ = false;
  if (std::exchange(is_stale_, false)) return;
  if (status.ok())
    take_answer(unpack(found_), now_ns);
  else
    take_failure(status, now_ns);
}

void Lock::take_answer(const LockWord& found, std::int64_t now_ns) {
  const bool in_doubt = std::exchange(in_doubt_, false);
  const bool done = !looks() && (found == expected_ || found == desired_);
  answered_ = true;
  seen_ = done ? desired_ : found;
  if (state_ == LockState::releasing) {
    state_ = LockState::idle;
    // In doubt, the lost swap may have released it, and whoever is there now took it from free.
    if (done || in_doubt || !status_.ok()) return;
    status_ = Status(Code::mismatch,
                     fmt::format("the lock of rank {} was taken over in epoch {} while it was held",
                                 path_->peer(), found.epoch),
                     found.holder);
  } else if (state_ == LockState::withdrawing) {
    state_ = done ? LockState::releasing : LockState::idle;
    again_ns_ = 0;
  } else if (done) {
    state_ = LockState::held;
    inherited_ = !expected_.free();
  } else if (found.free() || dead_ == found) {
    again_ns_ = 0;
  } else {
    wait(now_ns);
  }
}

void Lock::take_failure(const Status& status, std::int64_t now_ns) {
  if (!is_final(status.code()) || !posted_on_->failure().ok()) {
    in_doubt_ = !looks();
    if (state_ == LockState::withdrawing && !in_doubt_) state_ = LockState::idle;
    return wait(now_ns);
  }
  in_doubt_ = false;
  state_ = LockState::idle;
  if (status_.ok()) status_ = status;
}

void Lock::wait(std::int64_t now_ns) {
  const std::int64_t half = wait_ns_ / 2;
  again_ns_ = now_ns + wait_ns_ - half + static_cast<std::int64_t>(random_()) % (half + 1);
  wait_ns_ = std::min(2 * wait_ns_, options_.longest_wait_ns);
}

void Lock::give_up() {
  is_given_up_ = true;
  if (status_.ok()) status_ = late();
  if (state_ == LockState::taking)
    state_ = (in_flight_ && !is_stale_) || in_doubt_ ? LockState::withdrawing : LockState::idle;
}

Status Lock::late() const {
  const Rank owner = path_->peer();
  const std::string_view done = state_ == LockState::taking ? "taken" : "given back";
  if (!path_->failure().ok()) {
    return Status(Code::timed_out,
                  fmt::format("the lock of rank {} was not {} in time: its path failed: {}", owner,
                              done, path_->failure().text()),
                  owner);
  }
  if (!answered_ || state_ == LockState::releasing) {
    return Status(Code::timed_out,
                  fmt::format("the lock of rank {} was not {} in time: its owner did not answer",
                              owner, done),
                  owner);
  }
  if (seen_.free()) {
    return Status(Code::timed_out,
                  fmt::format("the lock of rank {} was not taken in time: others were faster, {} "
                              "times so far",
                              owner, seen_.epoch),
                  owner);
  }
  return Status(Code::timed_out,
                fmt::format("the lock of rank {} was not taken in time: rank {} has held it since "
                            "epoch {}",
                            owner, seen_.holder, seen_.epoch),
                seen_.holder);
}

std::int64_t Lock::next_ns() const {
  if (state_ == LockState::idle || state_ == LockState::held) return kNever;
  const std::int64_t bound = has_deadline() ? deadline_ns_ : kNever;
  if (in_flight_ || !path_->failure().ok()) return bound;
  return std::min(again_ns_, bound);
}

}  // namespace weft
