// Line: a stream connection between the two sides of `weft perf wire`, a socket pair or TCP, that
// carries short messages. Every wait has a bound. Owned by one side, used by its one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "verbs/base/base.h"

namespace weft {

class Line {
 public:
  // Waits a short while at most until the descriptor is readable; what else a side has to do while
  // it waits is done there.
  using Idle = std::function<void(int fd)>;

  // Both ends, for a process and its child.
  static Result<std::pair<Line, Line>> make_pair();
  // One end of a connection, as await_caller() and call_listener() have it.
  explicit Line(Fd fd) : fd_(std::move(fd)) {}

  Status say(std::string_view message) { return send('=', message); }
  // The last word: why this side ends. The other one's hear() returns it.
  void fail(const Status& why);
  // The plain Idle: nothing else is to be done.
  static void wait(int fd);
  // The next message, `what` the other side has to tell.
  Result<std::string> hear(std::string_view what, Deadline deadline, const Idle& idle);
  // The same for values that are their own bytes; both sides are of one build.
  template <class T>
  Status say_value(const T& value) {
    return say({reinterpret_cast<const char*>(&value), sizeof value});
  }
  template <class T>
  Result<T> hear_value(std::string_view what, Deadline deadline, const Idle& idle) {
    WEFT_ASSIGN(const std::string bytes, hear(what, deadline, idle));
    T value;
    if (bytes.size() != sizeof value) return foreign();
    bytes.copy(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }

 private:
  static Status foreign();
  Status send(char kind, std::string_view message);
  // Why the other side is there no more.
  Status gone();
  // What is there; as recv() has it.
  ssize_t receive(std::span<char> to);
  // The first message of `partial_`, if it is whole.
  Result<std::optional<std::string>> take();

  Fd fd_;
  std::string partial_;
};

}  // namespace weft
