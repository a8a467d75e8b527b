// Sleeping and waking. Each UCX worker has a descriptor, which becomes readable at the first event
// after the worker was armed. Arming fails as busy while an event waits to be taken in.
#include <poll.h>
#include <time.h>

#include <algorithm>

#include "verbs/ucx/interface.h"

namespace weft::ucx {
namespace {

// How often arming is tried, each time after a turn that takes in what keeps it from being done.
constexpr int kMostTries = 16;

}  // namespace

// Returns whether UCX will make the descriptor readable at the next event. While armed, what is
// posted leaves at once, because the caller looks once more at what has come and then sleeps
// without another turn.
bool UcxInterface::arm() {
  armed_ = true;
  report_releases();
  for (int tries = 0; tries < kMostTries; ++tries) {
    if (library_.worker_arm(worker_) == UCS_OK) return true;
    progress();
  }
  return false;
}

void UcxInterface::wait_for_event(std::int64_t timeout_ns) {
  if (library_.worker_arm(worker_) != UCS_OK) return;
  const std::int64_t ns = std::max<std::int64_t>(timeout_ns, 0);
  const timespec timeout{ns / 1'000'000'000, ns % 1'000'000'000};
  pollfd event{descriptor_, POLLIN, 0};
  ppoll(&event, 1, &timeout, nullptr);
}

void UcxInterface::sleep(std::int64_t timeout_ns, const std::function<bool()>& ready) {
  const bool safe = arm();
  if (!ready() && safe) wait_for_event(timeout_ns);
  disarm();
  progress();
}

void UcxInterface::wake() {
  library_.worker_signal(worker_);
}

}  // namespace weft::ucx
