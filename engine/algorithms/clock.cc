// clock: ticks are puts of the window's own word, whose value nobody reads.
#include "engine/algorithms/clock.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "engine/algorithms/own_window.h"

namespace weft {
namespace {

constexpr int kTicked = 0;  // the signal

}  // namespace

Result<Clock> Clock::create(Context& context, const std::string& name) {
  WEFT_ASSIGN(Window window, own_window(context, 1, DataType::u64, name));
  return Clock(std::move(window));
}

Status Clock::tick(std::span<const Rank> to) {
  if (to.empty()) return {};
  std::vector<NeighborWeight> destinations;
  for (const Rank rank : to) destinations.push_back({rank, 1.0});
  return window_.put(window_.tensor(), {.destinations = destinations, .signal = kTicked});
}

std::size_t Clock::place_of(Rank in_neighbor) const {
  const auto found = std::ranges::lower_bound(in_neighbors(), in_neighbor);
  invariant(found != in_neighbors().end() && *found == in_neighbor,
            "every rank that a clock counts is an in-neighbor");
  return static_cast<std::size_t>(found - in_neighbors().begin());
}

// The signal is read before the counts: a tick that comes after the counts were read ends the wait
// at once.
Status Clock::wait(std::span<const std::uint64_t> least, std::string_view title,
                   const Meaning& tick, const Deadline& deadline) {
  for (;;) {
    WEFT_ASSIGN(const std::uint64_t raised, window_.signal(kTicked));
    WEFT_ASSIGN(const std::vector<std::uint64_t> has, counts());
    std::size_t late = 0;
    while (late < has.size() && has[late] >= least[late]) ++late;
    if (late == has.size()) return {};
    const std::int64_t left = deadline.ns() - now_ns();
    if (left > 0) {
      const Status status = window_.wait_signal(kTicked, raised + 1, left);
      if (status.ok() || status.code() == Code::timed_out) continue;
      return status;
    }
    const Rank rank = in_neighbors()[late];
    return Status(Code::timed_out,
                  fmt::format("{}: rank {} has {} {} {}, and {} are needed", title, rank, tick.did,
                              has[late], tick.what, least[late]),
                  rank);
  }
}

}  // namespace weft
