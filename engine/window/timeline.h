// timeline: the calls of all windows of a context, as events of the trace. Internal to the engine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/trace/trace.h"

namespace weft::window {

enum class CallName : std::uint8_t {
  put,
  accumulate,
  get,
  update,
  write,
  read,
  wait_signal,
  lock,
  flush  // of a tensor on a GPU
};
inline constexpr std::size_t kCalls = 9;
// As messages and the timeline name it: "win_put".
[[nodiscard]] std::string_view name(CallName call);

// Belongs to the holder of the lane's token. Without a trace every function is a branch.
class Timeline {
 public:
  // A window's calls by their numbers in the trace, "win_put model" and so on.
  using Names = std::array<std::uint16_t, kCalls>;

  explicit Timeline(Trace& trace) : trace_(trace), ring_(trace.add_lane("windows")) {}

  [[nodiscard]] Names names_of(std::string_view window) const;
  // A call of the window with these names begins; its number.
  std::uint32_t begins(const Names& names, CallName call) {
    if (!ring_.on()) return 0;
    ring_.add(Event::call_begin, ++calls_, kNoRank, names[static_cast<std::size_t>(call)]);
    return calls_;
  }
  void ends(std::uint32_t number, const Status& status) {
    ring_.add(Event::call_end, number, kNoRank, static_cast<std::uint16_t>(status.code()));
  }

 private:
  Trace& trace_;
  TraceRing& ring_;
  std::uint32_t calls_ = 0;
};

}  // namespace weft::window
