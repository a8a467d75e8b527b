// steps: what a lane drives beside executions: its steps and its progress hook (engine/operation/step.h).
// Internal to the module.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/operation/operation.h"
#include "verbs/transport/transport.h"

namespace weft {

// Belongs to the holder of the lane's token.
class Steps {
 public:
  // `interface`: on which steps post one-sided operations.
  explicit Steps(Interface& interface) : interface_(interface) {}

  // The operation, of which there may be none, ends with the step. A step may add steps.
  void add(std::shared_ptr<OperationStep> step, std::shared_ptr<Operation> operation) {
    steps_.push_back({std::move(step), std::move(operation)});
  }
  // The hook of the lane; nullptr: none.
  void attend(ProgressHook* hook) { hook_ = hook; }
  // Advances the hook, and each step as far as it goes. Calls `ended(operation, status)` for each step
  // that is over. Returns whether anything moved.
  template <typename Ended>
  bool advance(Ended&& ended);
  // Advances this step alone, as long as it goes on without a wait. Returns whether it is over. Where
  // memory is shared, one-sided operations have ended when they were posted.
  bool run_at_once(OperationStep& step);
  // The lane has failed: the hook gives up. The steps go on, since peers may be well.
  void fail(const Status& why) {
    if (hook_ != nullptr) hook_->abandon(why);
  }
  // The lane closes: every step ends.
  void abandon(const Status& why) {
    for (Driven& each : steps_) each.step->abandon(why);
  }

  // What the hook has in the flight recorder.
  void recall_pending(FlightText& to) const {
    if (hook_ != nullptr) hook_->recall_pending(to);
  }
  [[nodiscard]] bool is_empty() const { return steps_.empty(); }
  // Whether nothing here waits for anybody.
  [[nodiscard]] bool is_idle() const {
    return steps_.empty() && (hook_ == nullptr || hook_->is_idle());
  }
  // When the hook must be advanced even without news, or `end_ns` if that is sooner.
  [[nodiscard]] std::int64_t next_ns(std::int64_t end_ns) const {
    return hook_ == nullptr ? end_ns : std::min(end_ns, hook_->next_ns());
  }

 private:
  struct Driven {
    std::shared_ptr<OperationStep> step;
    std::shared_ptr<Operation> operation;  // ends with the step; may be null
  };
  bool advance_each();
  bool tell_ends();

  Interface& interface_;
  std::vector<Driven> steps_;
  ProgressHook* hook_ = nullptr;
  std::array<Completion, 16> ends_;  // of one-sided operations, while they are told
};

template <typename Ended>
bool Steps::advance(Ended&& ended) {
  bool moved = hook_ != nullptr && hook_->advance();
  if (steps_.empty()) return moved;
  do {
    moved |= advance_each();
  } while (tell_ends());
  for (std::size_t i = 0; i < steps_.size();) {
    if (!steps_[i].step->is_over()) {
      ++i;
      continue;
    }
    const Driven over = std::move(steps_[i]);
    steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(i));
    ended(over.operation, over.step->status());
  }
  return moved;
}

}  // namespace weft
