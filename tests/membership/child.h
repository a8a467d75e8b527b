// Child: a process that does nothing but wait to be told to leave, or to be killed. Never outlives
// the test: the destructor kills and reaps it, and the kernel kills it when the test program ends.
// Changes: counts calls of on_change and waits for them, for a bounded time.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "engine/bootstrap/bootstrap.h"

namespace weft {

class Child {
 public:
  Child() {
    int ends[2];
    invariant(::pipe(ends) == 0, "a test has two descriptors left");
    const Fd read_end(ends[0]);
    write_end_ = Fd(ends[1]);
    pid_ = ::fork();
    invariant(pid_ >= 0, "a test has a process left");
    if (pid_ == 0) wait_to_leave(read_end.get());
  }
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), write_end_(std::move(other.write_end_)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    kill();
    reap();
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill() const {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }
  // It ends by itself, soon.
  void let_leave() const { invariant(::write(write_end_.get(), "x", 1) == 1, "the child reads"); }
  // Waits for its end; then its number names no process any more.
  void reap() {
    if (pid_ > 0) ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  // Waits for its end and leaves it a zombie.
  void wait_for_end() const {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }

 private:
  // Between fork and _exit only calls that are safe in a copy of one thread of many.
  [[noreturn]] static void wait_to_leave(int fd) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    char byte = 0;
    const ssize_t got = ::read(fd, &byte, 1);
    ::_exit(got == 1 ? 0 : 1);
  }

  pid_t pid_ = 0;
  Fd write_end_;
};

class Changes {
 public:
  void note() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  [[nodiscard]] bool wait_for(int count, std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, at_most, [&] { return count_ >= count; });
  }
  [[nodiscard]] int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

}  // namespace weft
