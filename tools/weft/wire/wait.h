// How a side of `weft perf wire` waits: by the engine's rule, spinning, yielding, then asleep.
#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "verbs/progress/progress.h"
#include "verbs/transport/transport.h"

namespace weft {

struct WirePatience {
  WaitPolicy policy;
  std::int64_t deadline_ms = 60'000;  // WEFT_DEADLINE_MS, for a wait in which nothing moves
};

// Turns of the interface until `done`, which is asked until it is and not again: it may take what it
// waits for, and it is also asked while the side falls asleep. An error once the path has failed or
// nothing has come of it for too long.
template <class Predicate>
Status turn_until(Interface& interface, const Endpoint& peer, const WirePatience& patience,
                  std::int64_t longest_sleep_ns, Predicate done) {
  Backoff backoff(patience.policy);
  std::int64_t since_ns = 0;  // the first slow look: reading the clock may cost as much as a turn
  bool is_done = false;
  const auto ask = [&] { return is_done = is_done || done(); };
  while (!ask()) {
    interface.progress();
    const Backoff::Next next = backoff.next();
    if (next == Backoff::Next::again) continue;
    WEFT_RETURN_IF_ERROR(peer.failure());
    const std::int64_t now = now_ns();
    if (since_ns == 0) since_ns = now;
    if (now - since_ns > patience.deadline_ms * 1'000'000) {
      return Status(Code::timed_out,
                    fmt::format("between the two sides nothing moved for {} ms (WEFT_DEADLINE_MS)",
                                patience.deadline_ms));
    }
    if (next == Backoff::Next::sleep) interface.sleep(longest_sleep_ns, ask);
  }
  return {};
}

}  // namespace weft
