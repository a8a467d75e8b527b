// start_thread: the one way in which Weft starts a thread. Weft lives in a host's process, so each
// of its threads
// - blocks the signals that are sent to the process: the host's handlers run on the host's threads.
//   A thread's own faults (SIGSEGV, SIGBUS, …) stay unblocked, so that the host's reporter of
//   crashes sees them;
// - has a name that tells whose it is: "weft-lane", in `top -H` and in debuggers;
// - is started by a call that returns an error where the system has no thread left (`ulimit -u`);
// - logs for whom its starter logged (log.h).
//
// The function must not throw. Thread safe. A rule of tests/style keeps other ways out.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <functional>
#include <optional>
#include <utility>

#include "verbs/base/status.h"

namespace weft {

// A running thread, or none. Its owner's destructor waits for the thread's end, so the owner tells
// the thread to end before. Movable, not copyable; one thread at a time may use the object.
class Thread {
 public:
  Thread() = default;
  Thread(Thread&& other) noexcept : thread_(std::exchange(other.thread_, std::nullopt)) {}
  Thread& operator=(Thread&& other) noexcept {
    if (this != &other) {
      join();
      thread_ = std::exchange(other.thread_, std::nullopt);
    }
    return *this;
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  ~Thread() { join(); }

  // Started and not joined yet.
  [[nodiscard]] bool joinable() const { return thread_.has_value(); }
  // The caller runs on this thread.
  [[nodiscard]] bool is_current() const {
    return thread_ && pthread_equal(*thread_, pthread_self()) != 0;
  }
  // Waits until the thread has ended; the thread itself is let go instead. No thread: returns at once.
  void join();

 private:
  friend Result<Thread> start_thread(const char* name, std::function<void()> function);
  explicit Thread(pthread_t thread) : thread_(thread) {}

  std::optional<pthread_t> thread_;
};

// `name` has at most 15 characters, the kernel's bound. exhausted: no thread could be started, and
// the text names the limits that may be the reason.
[[nodiscard]] Result<Thread> start_thread(const char* name, std::function<void()> function);

// While it lives, threads that the caller's thread starts block the signals named above. For
// libraries that start threads of their own (UCX, PMIx).
class SignalsBlocked {
 public:
  SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace weft
