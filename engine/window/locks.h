// locks: this rank's hands on the mutexes of a window, each a verbs/lock word in its owner's part.
//
// Threads: the holder of the lane's token. Lifetime: hands live as long as the window, and until no
// swap is under way. Internal to the module.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/lane/lane.h"
#include "engine/one_sided/one_sided.h"
#include "engine/window/layout.h"
#include "verbs/lock/lock.h"

namespace weft::window {

// A hand on one mutex. All ranks reach the mutex by the same interface of its owner, the one that
// the owner opened first.
class Hand final : public WorkOwner {
 public:
  Hand(const Place& place, const RemoteBuffer& word, LockAttempts& attempts, Rank self)
      : owner(place.rank),
        lock(*place.endpoint, word, attempts, {.self = self, .ticket = ticket(), .seed = ticket()}),
        bond(*place.endpoint) {}
  void work_ended(const Status& status) override;
  void advance(std::int64_t now_ns);
  [[nodiscard]] bool is_idle() const { return lock.state() == LockState::idle; }

  const Rank owner;
  Lock lock;
  Endpoint& bond;

 private:
  [[nodiscard]] Endpoint* way() const;
};

// ok, or why the rank, to which the endpoint leads (null: any), is not there any more.
using CheckAlive = std::function<Status(Rank, const Endpoint*)>;

// What happens to mutexes whose owners are not there any more: an error, or they are passed over.
enum class Gone : std::uint8_t { fail, pass };

// Some of a window's mutexes, taken in ascending order of their owners. A mutex ends with its owner,
// so nothing of it needs to be given back then.
//
// Each call ends at its deadline. A hand whose swap the owner has not answered by then is *settled*
// behind the call (Settling). The next call that needs it waits until that is over.
class Locks {
 public:
  // `hands`: ascending by owner, and they outlive this, as does `check_alive`.
  Locks(std::vector<Hand*> hands, const CheckAlive& check_alive, Gone gone);

  [[nodiscard]] Status acquire(std::int64_t deadline_ns);
  [[nodiscard]] Status release(std::int64_t deadline_ns) { return group_.release(deadline_ns); }
  void advance();
  [[nodiscard]] bool are_held() const { return group_.state() == LockState::held; }
  [[nodiscard]] bool are_free() const { return !waits_ && group_.state() == LockState::idle; }
  [[nodiscard]] const Status& status() const { return late_.ok() ? group_.status() : late_; }
  [[nodiscard]] const std::vector<Hand*>& hands() const { return hands_; }
  // Those of a call that has ended.
  [[nodiscard]] std::vector<Hand*> settling() const;

 private:
  void wait_until_settled(std::int64_t now_ns);

  std::vector<Hand*> hands_;
  const CheckAlive& check_alive_;
  const Gone gone_;
  LockGroup group_;
  bool waits_ = false;  // acquire() goes on when no hand is settled any more
  std::int64_t deadline_ns_ = 0;
  Status late_;
};

// Drives hands that a call has left until they are idle.
class Settling final : public OperationStep {
 public:
  // `keeps` has the hands and `check_alive`.
  Settling(std::shared_ptr<const void> keeps, std::vector<Hand*> hands,
           const CheckAlive& check_alive)
      : keeps_(std::move(keeps)), hands_(std::move(hands)), check_alive_(check_alive) {}
  bool advance() override;
  void abandon(const Status&) override { hands_.clear(); }
  [[nodiscard]] bool is_over() const override { return hands_.empty(); }
  [[nodiscard]] const Status& status() const override { return status_; }

 private:
  const std::shared_ptr<const void> keeps_;
  std::vector<Hand*> hands_;
  const CheckAlive& check_alive_;
  const Status status_;
};

// Takes the locks, or gives them back.
class LockTask final : public OperationStep {
 public:
  LockTask(Locks& locks, bool takes) : locks_(locks), takes_(takes) {}
  bool advance() override {
    locks_.advance();
    return is_over();
  }
  void abandon(const Status& why) override { abandoned_ = why; }
  [[nodiscard]] bool is_over() const override {
    return !abandoned_.ok() || locks_.are_free() || (takes_ && locks_.are_held());
  }
  [[nodiscard]] const Status& status() const override {
    return abandoned_.ok() ? locks_.status() : abandoned_;
  }

 private:
  Locks& locks_;
  const bool takes_;
  Status abandoned_;
};

}  // namespace weft::window
