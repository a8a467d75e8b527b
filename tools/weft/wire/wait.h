// How a side of `weft perf wire` waits: by the engine's rule, spinning, yielding, then asleep.
#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "verbs/progress/progress.h"
#include "verbs/transport/transport.h"

namespace weft {

inline constexpr std::int64_t kWirePatienceMs = 60'000;  // without anything that moves

// Turns of the interface until `done`, which is asked until it is and not again: it may take what it
// waits for, and it is also asked while the side falls asleep. An error once the path has failed or
// nothing has come of it for too long.
template <class Predicate>
Status turn_until(Interface& interface, const Endpoint& peer, const WaitPolicy& policy,
                  std::int64_t longest_sleep_ns, Predicate done) {
  Backoff backoff(policy);
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
    if (now - since_ns > kWirePatienceMs * 1'000'000)
      return Status(Code::timed_out, fmt::format("nothing moved for {} s", kWirePatienceMs / 1000));
    if (next == Backoff::Next::sleep) interface.sleep(longest_sleep_ns, ask);
  }
  return {};
}

}  // namespace weft
