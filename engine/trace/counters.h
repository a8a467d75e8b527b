// Counters: what a lane has done since it started. They are always on.
//
// Only the owner of the lane writes them. Counting is therefore a load, an add and a store, without
// a locked instruction. Any thread may read them at any time. A reader sees a recent value of each
// counter, but not the values of all counters at one instant.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.store(value() + n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct alignas(64) Counters {
  Counter operations;      // that have ended, with or without an error
  Counter bytes_sent;      // payload, headers not included
  Counter bytes_combined;  // output bytes of combines
  Counter notices;         // notices received
  Counter full;            // posts that found no free slot
  Counter yields;          // how often a waiter yielded its core
  Counter sleeps;          // how often a waiter slept in the kernel
  Counter wakes;           // how often this lane woke a sleeping peer
};
static_assert(sizeof(Counters) == 64, "a lane's counters are one cache line, shared with no other");

struct LaneCounters {
  std::string_view lane;
  const Counters* counters = nullptr;
};

// All lanes' counters in the Prometheus text format 0.0.4, labelled by rank and lane.
[[nodiscard]] std::string prometheus_text(Rank rank, std::span<const LaneCounters> lanes);

}  // namespace weft
