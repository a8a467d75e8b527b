// The parts of base that need the operating system: error text and clocks.
#include "verbs/base/base.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace weft {
namespace {

std::int64_t clock_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

Code code_of_errno(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
      return Code::no_permission;
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case EDQUOT:
    case EFBIG:
      return Code::exhausted;
    default:
      return Code::system;
  }
}

}  // namespace

std::string_view name(Code code) {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::mismatch:
      return "mismatch";
    case Code::timed_out:
      return "timed_out";
    case Code::peer_died:
      return "peer_died";
    case Code::peer_left:
      return "peer_left";
    case Code::no_permission:
      return "no_permission";
    case Code::exhausted:
      return "exhausted";
    case Code::unavailable:
      return "unavailable";
    case Code::closed:
      return "closed";
    case Code::system:
      return "system";
    case Code::corrupted:
      return "corrupted";
  }
  return "unknown";
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  return std::string(name(state_->code)) + ": " + state_->text;
}

std::string errno_text(int error) {
  return std::generic_category().message(error);
}

Status system_error(std::string_view what, int error) {
  std::string text = std::string(what) + ": " + errno_text(error);
  if (error == EMFILE) text += " (RLIMIT_NOFILE; raise it with `ulimit -n`)";
  return Status(code_of_errno(error), std::move(text));
}

void invariant_failed(const char* text, const char* file, unsigned line) {
  std::fprintf(stderr, "weft: broken invariant at %s:%u: %s\n", file, line, text);
  std::abort();
}

std::int64_t now_ns() {
  return clock_ns(CLOCK_MONOTONIC);
}
std::int64_t process_cpu_ns() {
  return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int Deadline::left_ms() const {
  constexpr std::int64_t kLongest = 1 << 30;  // poll(2) takes an int; twelve days are enough
  const std::int64_t left = (at_ns_ - now_ns() + 999'999) / 1'000'000;
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongest));
}

}  // namespace weft
