// timeline: names of calls.
#include "engine/window/timeline.h"

#include <fmt/core.h>

namespace weft::window {

std::string_view name(CallName call) {
  constexpr std::array<std::string_view, kCalls> kNames = {
      "win_put",  "win_accumulate",  "win_get",  "win_update", "win_write",
      "win_read", "win_wait_signal", "win_lock", "win_flush"};
  return kNames[static_cast<std::size_t>(call)];
}

Timeline::Names Timeline::names_of(std::string_view window) const {
  Names names{};
  if (!trace_.on()) return names;
  for (std::size_t call = 0; call < kCalls; ++call) {
    names[call] =
        trace_.operation_name(fmt::format("{} {}", name(static_cast<CallName>(call)), window));
  }
  return names;
}

}  // namespace weft::window
