// trace: what happened when, and how often. A timeline of each lane in a ring (`TraceRing`),
// written as a file that chrome://tracing and https://ui.perfetto.dev open, and metrics of the
// process as Prometheus text (metrics.h).
//
//   weft::Trace trace(weft::kTraceRecords);                  // or Trace(): off
//   weft::TraceRing& ring = trace.add_lane("shm");           // at setup
//   const std::uint16_t kind = trace.operation_name("barrier");
//   ring.add(weft::Event::operation_begin, number, weft::kNoRank, kind);   // on the hot path
//   weft::Status written = trace.write_chrome("trace-{rank}.json", rank);
//
// A Trace belongs to one context and outlives its lanes. add_lane() is called at setup, by one
// thread, before any thread writes a file. All other functions may be called by any thread at any
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/trace/metrics.h"
#include "engine/trace/ring.h"
#include "verbs/base/base.h"

namespace weft {

inline constexpr std::size_t kTraceRecords = 1 << 16;       // per lane: 1 MiB
inline constexpr std::size_t kMaxTraceRecords = 1 << 24;    // per lane: 256 MiB
inline constexpr std::size_t kMaxOperationNames = 1 << 14;  // names of operations, not operations

// What a file says about the context that it is of.
struct TraceContext {
  std::string name;         // equal at all its ranks, and no other context's
  std::vector<Rank> ranks;  // their numbers in the job; empty: nothing is said
};

class Trace {
 public:
  Trace() : Trace(0) {}  // off
  // `records_per_lane` is rounded up to a power of two and down to kMaxTraceRecords; 0: off.
  explicit Trace(std::size_t records_per_lane);

  [[nodiscard]] bool on() const { return records_per_lane_ != 0; }

  // A ring for a lane, shown under this name. It lives as long as the trace and does not move.
  TraceRing& add_lane(std::string name);

  // The number of a name such as "neighbor_allreduce direct", for the argument of operation_begin.
  // Equal texts have equal numbers. The number is 0, shown as "operation", if the trace is off or
  // has too many names. The function takes a lock: call it when a plan is made, not when it runs.
  [[nodiscard]] std::uint16_t operation_name(std::string_view name);

  // Writes the timeline to trace_path(path, rank) and replaces the file. In the file the rank is a
  // process and its lanes are threads. Combines are spans, other events are instants. Operations,
  // waits, names and calls of windows have tracks of their own, because several may be open on one lane. A name's
  // span has its parts in it: queued, agreed on, run. Times are microseconds of now_ns(), and the
  // file says how far the clock of the machine's day is from them: `weft timeline merge` puts the
  // files of several machines on one clock.
  Status write_chrome(std::string_view path, Rank rank, TraceContext context = {}) const;

 private:
  struct Lane {
    std::string name;
    std::unique_ptr<TraceRing> ring;
  };

  const std::size_t records_per_lane_;
  std::vector<Lane> lanes_;
  mutable std::mutex names_mutex_;
  std::vector<std::string> names_{"operation"};
  std::unordered_map<std::string, std::uint16_t> numbers_{{"operation", 0}};
};

// `path` with each "{rank}" replaced by the rank, else with ".RANK" added: one file per rank.
[[nodiscard]] std::string trace_path(std::string_view path, Rank rank);

}  // namespace weft
