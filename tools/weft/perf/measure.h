// Measuring one size. Every contender has a turn in every round, so that what the machine does
// meanwhile (near or far cores, a busy neighbor) affects all of them. A ratio is the median of the
// rounds' ratios; a time is the median of all laps.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/weft/perf/peer.h"
#include "tools/weft/perf/seat.h"

namespace weft {

// As Context::Usage counts them.
struct Counts {
  std::uint64_t allocations = 0;
  std::uint64_t network_bytes = 0;

  friend Counts operator-(const Counts& a, const Counts& b) {
    return {a.allocations - b.allocations, a.network_bytes - b.network_bytes};
  }
};

// What is timed. Either every rank has a part in it (subject), or it is a job of its own that rank 0
// asks (peer).
struct Contender {
  Subject subject;
  PeerJob* peer = nullptr;         // set at rank 0 only
  bool elsewhere = false;          // a peer; set at every rank
  std::function<Counts()> counts;  // of this rank so far; empty: not counted
  // Runs a trial of the subject in a way of its own; empty: as time_laps. A rank that gets no laps
  // from it only waited, and its time does not count.
  std::function<Result<Laps>(const Trial&)> time{};
};

// What rank 0 learned of one contender.
struct Score {
  std::vector<double> round_us;  // the median lap of each round
  std::vector<double> laps_us;   // every lap; for a peer the same as round_us
  double cpu_s = 0;
  double calls = 0;
  double cpu_s_per_gib = 0;
  std::uint64_t allocations = 0;             // by all ranks
  std::vector<std::uint64_t> network_bytes;  // that each rank gave to networks, in all calls
};

struct Contest {
  std::string_view operation;  // as a peer's job knows it
  std::size_t bytes = 0;
  double seconds = 1;        // about so long; at least kFewestRounds rounds all the same
  bool one_process = false;  // ranks are threads: each sees the CPU time of all
};

// The scores, in the contenders' order, at rank 0; empty elsewhere. All ranks call it alike.
[[nodiscard]] Result<std::vector<Score>> measure(const Contest& contest,
                                                 std::vector<Contender>& contenders, Seat& seat);

// Laps without meetings between them, so that ranks may run ahead of each other. In each lap a rank
// rewrites its input, runs the operation and checks the result.
Status check_running_free(const Subject& subject, int laps);

// The median over rounds of numerator / denominator.
[[nodiscard]] double paired_ratio(const Score& numerator, const Score& denominator);

}  // namespace weft
