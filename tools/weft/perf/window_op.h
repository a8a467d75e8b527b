// window_op: the operations of windows that `weft perf` measures. All of them are one-sided: rank 0
// works on the memory of rank 1, the target, and only rank 0 is timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

struct PerfArguments;

enum class WindowOp : std::uint8_t {
  put,
  get,
  accumulate,
  pages,  // kPerfPages pages with one submission, beside as many writes of one page each
  mutex,  // lock and unlock, uncontended
};

inline constexpr std::size_t kPerfPages = 256;

// What the target does while rank 0 works.
enum class TargetWay : std::uint8_t {
  waits,     // in Window::wait_signal, which serves the networks that need it
  sleeps,    // in a system call that has nothing to do with the window
  computes,  // uses its core, and calls nothing of Weft
  stopped,   // by SIGSTOP, with all of its threads
};

// The operation of that name ("win_put", "mutex"); nothing if it is none of a window.
[[nodiscard]] std::optional<WindowOp> window_op(std::string_view name);
// The way of that name. It must be one of those that check_window() lets pass.
[[nodiscard]] TargetWay target_way(std::string_view name);

// Gives the options that were not typed the values that suit an operation of a window.
void fit_window(PerfArguments& asked, bool has_ranks, bool has_sizes);
// ok, or an invalid_argument that names the option that does not suit the operation.
Status check_window(const PerfArguments& asked, WindowOp op);

}  // namespace weft
