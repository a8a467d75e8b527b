// A signal handler that remembers the signal.
#include "tools/weft/common/stop.h"

#include <signal.h>

#include <atomic>

namespace weft {
namespace {

std::atomic<int> stopped_by = 0;  // a signal handler reaches nothing else
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void weft_told_to_stop(int signal) {
  stopped_by = signal;
}

}  // namespace

void stop_by_signals() {
  struct sigaction action {};
  action.sa_handler = weft_told_to_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

bool is_told_to_stop() {
  return stopped_by != 0;
}

int stopped_status() {
  constexpr int kShell = 128;
  const int signal = stopped_by;
  return signal == 0 ? 0 : kShell + signal;
}

}  // namespace weft
