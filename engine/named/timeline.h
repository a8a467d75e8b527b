// timeline: what happens to operations by name, as events of the trace. Internal to the module.
#pragma once

#include <weft/named.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/named/work.h"
#include "engine/trace/trace.h"

namespace weft::named {

// Belongs to the holder of the lane's token. Without a trace every function is a branch.
class Timeline {
 public:
  explicit Timeline(Trace& trace) : trace_(trace), ring_(trace.add_lane("names")) {}

  // The lane has taken the work from the queue of submissions.
  void taken(const Work& work) {
    if (!ring_.on()) return;
    ring_.add_at(work.submitted_ns, Event::name_submitted, work.number, kNoRank,
                 trace_.operation_name(work.name));
    ring_.add(Event::name_taken, work.number);
  }
  // The work runs as one of so many that run together.
  void runs(const Work& work, std::size_t together) {
    constexpr std::size_t kMost = 0xffff;
    ring_.add(Event::name_runs, work.number, kNoRank,
              static_cast<std::uint16_t>(std::min(together, kMost)));
  }
  void ended(const Work& work, const Status& status) {
    ring_.add(Event::name_ended, work.number, kNoRank, static_cast<std::uint16_t>(status.code()));
  }

 private:
  Trace& trace_;
  TraceRing& ring_;
};

// How many names ran together, batch by batch.
class BatchCounts {
 public:
  void add(std::size_t names) {
    const auto bin = static_cast<std::size_t>(std::bit_width(names)) - 1;
    ++by_names_[std::min(bin, by_names_.size() - 1)];
    if (names > 1) fused_ += names;
  }
  void add_to(Named::Usage& usage) const {
    for (std::size_t bin = 0; bin < by_names_.size(); ++bin) {
      usage.batches += by_names_[bin];
      usage.batches_by_names[bin] += by_names_[bin];
    }
    usage.fused += fused_;
  }

 private:
  decltype(Named::Usage::batches_by_names) by_names_{};
  std::uint64_t fused_ = 0;
};

}  // namespace weft::named
