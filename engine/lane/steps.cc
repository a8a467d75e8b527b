// steps: advancing them, and telling the owners of one-sided operations of their ends.
#include "engine/lane/steps.h"

namespace weft {

bool Steps::advance_each() {
  bool moved = false;
  for (std::size_t i = 0; i < steps_.size(); ++i) moved |= steps_[i].step->advance();
  return moved;
}

// Returns whether any has ended.
bool Steps::tell_ends() {
  const std::size_t count = interface_.poll(ends_);
  for (std::size_t i = 0; i < count; ++i)
    WorkOwner::of(ends_[i].ticket).work_ended(ends_[i].status);
  return count != 0;
}

bool Steps::run_at_once(OperationStep& step) {
  while (!step.is_over()) {
    const bool advanced = step.advance();
    if (!tell_ends() && !advanced) return false;
  }
  return true;
}

}  // namespace weft
