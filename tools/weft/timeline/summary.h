// summary: where the time of a timeline went, by rank.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft {

// How long something took each time, in microseconds.
struct TimelineTimes {
  std::string name;
  std::vector<double> us;  // ascending
};

struct TimelineOfRank {
  int rank = 0;
  double us = 0;  // from its first event to its last
  std::vector<TimelineTimes> operations;
  std::vector<TimelineTimes> waits;     // by the rank that was waited for
  std::vector<TimelineTimes> combines;  // one, "combine"
  std::vector<TimelineTimes> names;     // of operations by name, whole
  std::vector<TimelineTimes> phases;    // of these: queued, agreed on, run
  std::vector<TimelineTimes> windows;   // calls
  double unfinished = 0;                // operations and names without an end
  double lost = 0;                      // records that were overwritten
};

[[nodiscard]] std::vector<TimelineOfRank> summarize(const std::vector<nlohmann::json>& events);
[[nodiscard]] std::vector<std::string> describe(const TimelineOfRank& rank);
[[nodiscard]] nlohmann::ordered_json to_json(const TimelineOfRank& rank);

}  // namespace weft
