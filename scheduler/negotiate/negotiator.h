// negotiator: one rank's part of the agreement (negotiate.h says how it is driven).
//
// Invariants, which tests/negotiate checks over simulated networks:
//  - All ranks get the same decisions in the same order.
//  - A request runs only after every rank that has not joined has submitted it.
//  - The caches of all ranks are equal after each cycle.
//  - A rank is never more than one cycle ahead of another, since a cycle needs all ranks. So what
//    arrives early has a bound.
//
// Internal to the module; others include negotiate.h.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "scheduler/negotiate/cycle.h"
#include "scheduler/negotiate/response_cache.h"

namespace weft {

struct NegotiateOptions {
  Rank rank = 0;
  int size = 1;
  std::size_t cache_capacity = 1024;
  // A rank that has something new waits so long for more before it begins a cycle.
  std::int64_t gather_ns = 0;
  // A request that is pending for so long makes the ranks find out who lacks it.
  std::int64_t stall_ns = 10'000'000'000;
};

// When to tell of what is pending too long: after stall_ns, and as long as it lasts at intervals of
// stall_ns, 2 stall_ns, 4 stall_ns, …
class StallClock {
 public:
  explicit StallClock(std::int64_t stall_ns) : stall_ns_(stall_ns) {}
  // `oldest_ns`: since when the oldest is pending.
  [[nodiscard]] std::int64_t due_ns(std::int64_t oldest_ns) const {
    return was_told(oldest_ns) ? told_ns_ + step_ns_ : oldest_ns + stall_ns_;
  }
  void told(std::int64_t oldest_ns, std::int64_t now) {
    step_ns_ = was_told(oldest_ns) ? 2 * step_ns_ : stall_ns_;
    told_ns_ = now;
  }

 private:
  [[nodiscard]] bool was_told(std::int64_t oldest_ns) const { return oldest_ns < told_ns_; }

  std::int64_t stall_ns_;
  std::int64_t step_ns_ = 0;
  std::int64_t told_ns_ = std::numeric_limits<std::int64_t>::min();
};

class Negotiator {
 public:
  explicit Negotiator(const NegotiateOptions& options);

  // invalid_argument if the name is pending already, is empty or too long, or this rank has joined.
  Status submit(NamedRequest request, std::int64_t now);
  // This rank has nothing to submit until Decision::all_joined.
  Status join(std::int64_t now);
  void receive(Rank from, std::span<const std::byte> message, std::int64_t now);
  void step(std::int64_t now);
  // Rank 0: a number, not 0, that all ranks get with the next cycle.
  void tell_all(std::uint64_t number) { tells_ = number; }
  void set_gather_ns(std::int64_t gather_ns) { options_.gather_ns = gather_ns; }

  // Those that are there now. Call them again after step() and receive().
  [[nodiscard]] std::vector<ControlMessage> take_messages() { return std::exchange(messages_, {}); }
  // Those of each cycle that has ended, so that ranks which fuse what runs in one cycle fuse alike.
  struct Cycle {
    std::uint64_t told = 0;  // by rank 0, before the decisions
    std::vector<Decision> decisions;
  };
  [[nodiscard]] std::vector<Cycle> take_decisions() { return std::exchange(ended_, {}); }

  // ok, or what is wrong with a message that arrived: `mismatch`, with its sender. For good.
  [[nodiscard]] const Status& failure() const { return failure_; }
  // When step() must be called even if nothing arrives.
  [[nodiscard]] std::int64_t next_ns() const;
  // The ranks without which this one cannot go on: in a cycle those whose messages come next, else
  // all others as long as something is pending.
  [[nodiscard]] std::vector<Rank> awaited() const;
  // Whether a cycle runs, or is about to.
  [[nodiscard]] bool is_busy() const { return phase_ != Phase::idle || has_news_; }
  [[nodiscard]] std::size_t pending() const { return pending_.size(); }
  [[nodiscard]] bool has_joined() const { return joins_ || has_joined_; }

  struct Counts {
    std::uint64_t cycles = 0;
    std::uint64_t messages = 0;              // sent
    std::uint64_t bytes = 0;                 // sent
    std::uint64_t coordinator_messages = 0;  // of these, requests to and decisions of rank 0
    std::uint64_t hits = 0;                  // requests that ran by their bit
    std::uint64_t misses = 0;                // requests of ours that rank 0 was told
    std::uint64_t invalidations = 0;
    std::uint64_t evictions = 0;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  static constexpr std::size_t kNoPlace = ~std::size_t{0};

  enum class Phase : std::uint8_t { idle, exchange, requests, decisions };
  struct Pending {
    NamedRequest request;
    std::int64_t since_ns = 0;
    std::size_t place = kNoPlace;  // in the cache, if it has the same request there
    std::uint64_t order = 0;
  };

  void note_news(std::int64_t now);
  void file(const std::string& name, Pending& pending);
  void begin();
  void run();
  bool advance();
  bool advance_exchange();
  bool advance_requests();
  bool advance_decisions();
  void outcome();
  void run_hits();
  void invalidate();
  void apply(std::vector<Decision> decisions);
  void cache(const NamedRequest& request);
  void drop(std::size_t place);
  void finish();
  void inquire();
  [[nodiscard]] std::int64_t oldest_ns() const;
  [[nodiscard]] negotiate::Told tell();
  void send(Rank to, negotiate::Kind kind, negotiate::Writer body);
  [[nodiscard]] bool take(negotiate::Kind kind, Rank from, std::vector<std::byte>& body);
  [[nodiscard]] bool has_arrived() const;
  void malformed(Rank from);

  NegotiateOptions options_;
  const std::vector<negotiate::Step> steps_;
  const std::vector<Rank> children_;
  negotiate::ResponseCache cache_;
  negotiate::Coordinator coordinator_;  // of rank 0

  std::unordered_map<std::string, Pending> pending_;
  std::uint64_t submissions_ = 0;
  negotiate::Bits bits_;             // pending names, by place in the cache
  std::vector<std::string> untold_;  // pending names that are not in the cache
  bool joins_ = false;               // to be told to rank 0
  bool has_joined_ = false;          // all ranks know it
  int joined_ = 0;                   // ranks that have joined
  bool has_news_ = false;            // since this rank contributed last
  std::int64_t news_ns_ = 0;
  std::int64_t stall_check_ns_ = kNever;
  bool inquires_ = false;
  StallClock stall_clock_;
  std::int64_t now_ = 0;  // of the last call

  // The cycle that runs or comes next.
  std::uint64_t cycle_ = 0;
  Phase phase_ = Phase::idle;
  std::size_t step_ = 0;
  bool has_sent_ = false;    // in this step
  bool tells_join_ = false;  // in this cycle
  negotiate::Contribution known_;
  std::vector<negotiate::Told> heard_;
  std::size_t children_heard_ = 0;
  std::vector<negotiate::Arrived> arrived_;

  std::vector<ControlMessage> messages_;
  std::vector<Decision> decisions_;  // of the cycle that runs
  std::vector<Cycle> ended_;         // those that have ended
  std::uint64_t tells_ = 0;          // what the next cycle tells all ranks
  Status failure_;
  Counts counts_;
};

}  // namespace weft
