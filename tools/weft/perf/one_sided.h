// OneSided: a trial in which only rank 0 works. Rank 0 runs its laps alone, without meetings, and
// rank 1 does meanwhile what --target says. One object per rank, used by its thread.
#pragma once

#include <weft/window.h>

#include "tools/limits/limits.h"
#include "tools/weft/perf/seat.h"
#include "tools/weft/perf/window_op.h"

namespace weft {

// The signals of a measured window.
inline constexpr int kVisibleSignal = 0;  // a put that is answered by a put
inline constexpr int kPagesSignal = 1;
inline constexpr int kEndSignal = 2;  // the trial is over

class OneSided {
 public:
  // Keeps the reference. `window` has rank 0 and rank 1 as neighbors of each other.
  OneSided(Seat& seat, Window window, TargetWay way)
      : seat_(seat), window_(std::move(window)), way_(way) {}

  // Rank 0's record; at the target a record without laps. Both ranks call it with the same trial.
  Result<Laps> time(const Trial& trial, const Subject& subject);

 private:
  Result<Laps> lead(const Trial& trial, const Subject& subject);
  Status end_trial();
  Status be_target();
  Status await_end_signal();
  Result<int> stopped_target();

  Seat& seat_;
  Window window_;
  TargetWay way_;
  std::uint64_t trials_ = 0;  // that have ended with a signal
};

}  // namespace weft
