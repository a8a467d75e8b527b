// Laps: how anything is timed. A lap is one call of an operation, or for messages so small that a
// clock would disturb them a batch of calls back to back.
//
//   every owner rewrites its input; all ranks meet; [ the operation, on all ranks at once ]; all
//   meet
//
// Only what is in brackets is timed. The time of a lap is its *span*: from the moment the first
// rank begins to the moment the last one is done, on the clock that the machine's processes share.
// So work that waits for a core counts, whoever does it. Batches do not rewrite: their calls follow
// each other as in Open MPI's and everyone's latency loops.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/limits/meeting.h"
#include "verbs/base/base.h"

namespace weft {

// Messages up to this size are timed in batches: one page, the size that transports copy to slots.
inline constexpr std::size_t kBatchedBytes = 4096;
// Calls of a batch. A hundred microseconds of the fastest exchange there is (0.1 us and more), so
// that the skew of the meeting before it, a few tenths of a microsecond, is lost in it.
inline constexpr int kBatch = 500;

// Part of one rank's measurement: what to do in a lap. `lap` numbers the data.
struct Subject {
  std::function<void(std::uint64_t lap)> rewrite;  // fills this rank's input; empty: keep it
  std::function<Status(int times)> run;            // the operation
  std::function<Status(std::uint64_t lap)> check;  // looks at the result; empty: do not
};

struct Trial {
  int laps = 1;
  int batch = 1;  // calls per lap; inputs are rewritten and results checked only when it is 1
  std::uint64_t first_lap = 0;
};

// One rank's record of a trial.
struct Lap {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};
struct Laps {
  std::vector<Lap> laps;
  std::int64_t cpu_ns = 0;  // of this process, all threads, in the timed parts
};

// Runs a trial; all ranks call it with the same trial at the same time.
[[nodiscard]] Result<Laps> time_laps(const Trial& trial, const Subject& subject, Meeting& meeting);

// Laps as the bytes that ranks send each other; mismatch when they are not a record of such a
// trial.
[[nodiscard]] std::string to_bytes(const Laps& laps);
[[nodiscard]] Result<Laps> laps_from_bytes(std::string_view bytes);

// Microseconds per call of each lap, from all ranks' records of one trial.
[[nodiscard]] std::vector<double> spans_us(std::span<const Laps> ranks, int batch);

// The value below which `fraction` of the samples lie. 0 when there are none.
[[nodiscard]] double quantile(std::vector<double> samples, double fraction);
[[nodiscard]] inline double median(std::vector<double> samples) {
  return quantile(std::move(samples), 0.5);
}

}  // namespace weft
