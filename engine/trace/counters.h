// Counters: what a lane has done since it started, always on.
//
// Written by the owner of the lane only, so that counting is a load, an add and a store, without a
// locked instruction; read by any thread at any time. A reader sees each counter at some recent
// value, not all of them at one instant.
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
  Counter operations;      // ended, well or badly
  Counter bytes_sent;      // payload, headers not included
  Counter bytes_combined;  // written by combines
  Counter notices;         // received: data of a peer became visible
  Counter full;            // posts that found no room
  Counter yields;          // of the core, while waiting
  Counter sleeps;          // in the kernel, until something arrives
  Counter wakes;           // of a sleeping peer, by us
};
static_assert(sizeof(Counters) == 64, "a lane's counters are one cache line, shared with no other");

struct LaneCounters {
  std::string_view lane;
  const Counters* counters = nullptr;
};

// All lanes' counters in the Prometheus text format 0.0.4, labelled by rank and lane.
[[nodiscard]] std::string prometheus_text(Rank rank, std::span<const LaneCounters> lanes);

}  // namespace weft
