// Time. Everything that waits takes a Deadline, so that no wait is without a bound.
#pragma once

#include <weft/export.h>

#include <cstdint>

namespace WEFT_PUBLIC weft {

// Nanoseconds of the machine's monotonic clock; comparable between the processes of one machine.
[[nodiscard]] std::int64_t now_ns();

// A point in monotonic time. A value; thread safe.
class Deadline {
 public:
  [[nodiscard]] static Deadline after_ms(std::int64_t ms) {
    return Deadline(now_ns() + ms * 1'000'000);
  }
  [[nodiscard]] static Deadline at_ns(std::int64_t ns) { return Deadline(ns); }
  [[nodiscard]] bool passed() const { return now_ns() >= at_ns_; }
  [[nodiscard]] std::int64_t ns() const { return at_ns_; }
  // Milliseconds left, rounded up, never below 0: what poll(2) takes.
  [[nodiscard]] int left_ms() const;

 private:
  explicit Deadline(std::int64_t ns) : at_ns_(ns) {}
  std::int64_t at_ns_;
};

}  // namespace weft
