// Carriage return, the text, and what clears the rest of the line.
#include "tools/weft/common/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "verbs/base/base.h"

namespace weft {
namespace {

constexpr std::int64_t kFirstNs = 1'000'000'000;
constexpr std::int64_t kPeriodNs = 200'000'000;

}  // namespace

Progress::Progress(std::string_view command)
    : command_(command),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      next_ns_(now_ns() + kFirstNs) {}

void Progress::say(std::string_view text) {
  if (!is_terminal_) return;
  const std::int64_t now = now_ns();
  if (now < next_ns_) return;
  next_ns_ = now + kPeriodNs;
  is_shown_ = true;
  fmt::print(stderr, "\r{}: {}\x1b[K", command_, text);
  std::fflush(stderr);
}

void Progress::clear() {
  if (!is_shown_) return;
  is_shown_ = false;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

}  // namespace weft
