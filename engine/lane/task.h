// task: what a lane does beside operations. A task is work of a window on its way through the lane,
// for example a put. An operation has a counterpart at each peer; a task has none, so it has no
// number, no channel and no credits. An attendant is with a lane as long as the lane lives, and
// looks at each turn whether there is something to do, for example messages to read.
//
// Threads: everything here belongs to the holder of the lane's token.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/lane/operation.h"
#include "verbs/base/base.h"

namespace weft {

// Who posts one-sided work. The ticket of the work is its owner's address, so an owner must live
// until all its work has ended. All work ends, at the latest when the interface closes.
class WorkOwner {
 public:
  virtual ~WorkOwner() = default;
  // One piece of work has ended. The work of one endpoint ends in the order of posting.
  virtual void work_ended(const Status& status) = 0;
  [[nodiscard]] std::uint64_t ticket() const { return reinterpret_cast<std::uintptr_t>(this); }
  [[nodiscard]] static WorkOwner& of(std::uint64_t ticket) {
    return *reinterpret_cast<WorkOwner*>(ticket);
  }
};

class LaneTask {
 public:
  virtual ~LaneTask() = default;
  // Does what can be done now; never waits. Returns whether anything was done.
  virtual bool advance() = 0;
  // The lane closes: the task ends with this error as soon as its work has ended.
  virtual void abandon(const Status& why) = 0;
  [[nodiscard]] virtual bool is_over() const = 0;
  // Once it is over.
  [[nodiscard]] virtual const Status& status() const = 0;
};

class LaneAttendant {
 public:
  virtual ~LaneAttendant() = default;
  // Does what can be done now; never waits. Returns whether anything was done.
  virtual bool advance() = 0;
  // Whether it waits for nobody. The lane then sleeps until there is news.
  [[nodiscard]] virtual bool is_idle() const = 0;
  // When advance() must be called again even without news (now_ns()).
  [[nodiscard]] virtual std::int64_t next_ns() const = 0;
  // The lane has failed: everything ends with this error.
  virtual void abandon(const Status& why) = 0;
};

}  // namespace weft
