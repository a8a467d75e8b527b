// clock: how often each in-neighbor has said that it did something, for example that it sent or
// took a message.
//
// A signal of a window says how often all in-neighbors together have raised it, so that a fast one
// would hide a slow one. A clock is a window of one word. A tick is a put, which the window counts
// for each in-neighbor; the signal that comes with the put wakes who waits.
//
// Threads: any. Lifetime: until end() or the end of the context. Internal to the module.
#pragma once

#include <weft/window.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/context/context.h"

namespace weft {

class Clock {
 public:
  // On the context's graph. Collective.
  static Result<Clock> create(Context& context, const std::string& name);

  // Counts 1 at each of these out-neighbors. What this rank put before is visible there.
  Status tick(std::span<const Rank> to);
  // For each in-neighbor, ascending.
  [[nodiscard]] Result<std::vector<std::uint64_t>> counts() { return window_.versions(); }
  [[nodiscard]] std::span<const Rank> in_neighbors() const { return window_.in_neighbors(); }
  // The place of this in-neighbor in counts().
  [[nodiscard]] std::size_t place_of(Rank in_neighbor) const;
  // What a tick means, for messages: "sent", "messages".
  struct Meaning {
    std::string_view did;
    std::string_view what;
  };
  // Waits until each count is at least that of `least`. timed_out names the rank that is behind:
  // "`title`: rank 3 has sent 4 messages, and 5 are needed".
  Status wait(std::span<const std::uint64_t> least, std::string_view title, const Meaning& tick,
              const Deadline& deadline);

  Status end(Context& context) { return context.win_free(window_.name()); }

 private:
  explicit Clock(Window window) : window_(std::move(window)) {}

  Window window_;
};

}  // namespace weft
