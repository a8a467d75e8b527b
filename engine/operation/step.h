// step: what a lane drives beside executions. A step is a piece of work on its way through the lane,
// for example a put of a window, or the copy of an output to a GPU. An execution has a counterpart at
// each peer; a step has none, so it has no number, no channel and no credits. A progress hook is with a
// lane as long as the lane lives, and looks at each turn whether there is something to do, for example
// messages to read.
//
// Threads: everything here belongs to the holder of the lane's token.
#pragma once

#include <cstdint>

#include "verbs/base/base.h"

namespace weft {

class FlightText;  // engine/trace

// Who posts one-sided operations. The ticket of one is its owner's address, so an owner must live until
// all of its have ended. All end, at the latest when the interface closes.
class WorkOwner {
 public:
  virtual ~WorkOwner() = default;
  // One of them has ended. Those of one endpoint end in the order of posting.
  virtual void work_ended(const Status& status) = 0;
  [[nodiscard]] std::uint64_t ticket() const { return reinterpret_cast<std::uintptr_t>(this); }
  [[nodiscard]] static WorkOwner& of(std::uint64_t ticket) {
    return *reinterpret_cast<WorkOwner*>(ticket);
  }
};

class OperationStep {
 public:
  virtual ~OperationStep() = default;
  // Does what can be done now; never waits. Returns whether anything was done.
  virtual bool advance() = 0;
  // The lane closes: the step ends with this error as soon as its one-sided operations have ended.
  virtual void abandon(const Status& why) = 0;
  [[nodiscard]] virtual bool is_over() const = 0;
  // Once it is over.
  [[nodiscard]] virtual const Status& status() const = 0;
};

class ProgressHook {
 public:
  virtual ~ProgressHook() = default;
  // Does what can be done now; never waits. Returns whether anything was done.
  virtual bool advance() = 0;
  // Whether it waits for nobody. The lane then sleeps until there is news.
  [[nodiscard]] virtual bool is_idle() const = 0;
  // When advance() must be called again even without news (now_ns()).
  [[nodiscard]] virtual std::int64_t next_ns() const = 0;
  // The lane has failed: everything ends with this error.
  virtual void abandon(const Status& why) = 0;
  // Adds what it works on to the flight recorder's dump. Its name differs from MetricSource::recall(),
  // which takes the lane's token: a class may be both.
  virtual void recall_pending(FlightText& /*to*/) {}
};

}  // namespace weft
