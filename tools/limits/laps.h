// Laps: how every operation is timed. A lap is one call of an operation. For messages so small that
// reading a clock would disturb the call, a lap is a batch of calls back to back.
//
//   every rank rewrites its input; all ranks meet; [ the operation, on all ranks at once ]; all
//   meet
//
// Only what is in brackets is timed. The time of a lap is its *span*: from the moment when the
// first rank begins to the moment when the last one is done, on the clock that all processes of the
// machine share. Work that waits for a core thus counts. In a batch inputs are not rewritten: its
// calls follow each other, as in the latency loops of Open MPI and others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/limits/meeting.h"
#include "verbs/base/base.h"

namespace weft {

// Messages up to this size are timed in batches: one page, the size that transports copy to slots.
inline constexpr std::size_t kBatchedBytes = 4096;
// Calls in a batch. Even with the fastest exchange (0.1 us) a batch takes 50 us. The skew of the
// meeting before it, a few tenths of a microsecond, hardly counts then.
inline constexpr int kBatch = 500;

// What one rank does in a lap. `lap` numbers the data.
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
  std::int64_t cpu_ns = 0;  // processor time of all threads of this process in the timed parts
};

// Runs a trial; all ranks call it with the same trial at the same time.
[[nodiscard]] Result<Laps> time_laps(const Trial& trial, const Subject& subject, Meeting& meeting);

// Converts laps to the bytes that ranks send each other, and back. `mismatch` if the bytes are not
// such a record.
[[nodiscard]] std::string to_bytes(const Laps& laps);
[[nodiscard]] Result<Laps> laps_from_bytes(std::string_view bytes);

// Microseconds per call of each lap, from all ranks' records of one trial.
[[nodiscard]] std::vector<double> spans_us(std::span<const Laps> ranks, int batch);

// The value below which `fraction` of the samples lie. 0 if there are no samples.
[[nodiscard]] double quantile(std::vector<double> samples, double fraction);
[[nodiscard]] inline double median(std::vector<double> samples) {
  return quantile(std::move(samples), 0.5);
}

}  // namespace weft
