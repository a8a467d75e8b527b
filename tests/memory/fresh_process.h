// Fresh processes for tests of what exists once per process (the heap) and of what happens between
// processes. The program that uses them must not use Weft itself before it forks, so that each
// child starts with nothing.
//
// A child runs one function. Its failed expectations, skips and exceptions come back as text and
// are reported in the parent's test; a child that hangs is killed by its alarm and reported as
// such.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <string>

namespace weft {

class FreshProcess {
 public:
  struct Outcome {
    std::string failures;  // empty: none
    std::string skipped;   // the reason, empty: not
  };

  explicit FreshProcess(const std::function<void()>& body);
  ~FreshProcess();  // ends and reaps a child that nobody joined
  FreshProcess(FreshProcess&& other) noexcept;
  FreshProcess& operator=(FreshProcess&&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Waits for the child's end.
  Outcome join();
  // Kills the child but does not reap it: its pid stays taken by a zombie until the destructor.
  void kill() const;

 private:
  pid_t pid_ = -1;
  int report_ = -1;  // the reading end of the pipe that the child reports on
};

// Runs `body` in a fresh process as a part of the current test: its failures and skips are this
// test's.
void in_fresh_process(const std::function<void()>& body);

// Adds the outcome of one of several processes to the current test.
void report(const FreshProcess::Outcome& outcome, const std::string& who);

}  // namespace weft
