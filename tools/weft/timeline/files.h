// files: the timelines that ranks have written (WEFT_TRACE), read and put on one clock.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

// One file.
struct TimelineFile {
  std::string path;
  std::string machine;  // files with equal ones have one clock
  double day_us = 0;    // when this clock was 0
  // Of which context it is, the rank there, and the numbers that its ranks have in the job; no ranks: it does not say.
  std::string context{};
  Rank rank = 0;
  std::vector<Rank> ranks{};
  std::vector<nlohmann::json> events;
};

// Reads a file. An invalid_argument names the file and says what is wrong with it.
[[nodiscard]] Result<TimelineFile> read_timeline(const std::string& path);

// The events of all files on one clock, which begins with the first event. Files of one machine
// keep the distances between their events; files of several machines are as far apart as the clocks
// of these machines say. A rank that has written several files (a context and those made of it) is
// one process, whose threads carry the names of their files.
[[nodiscard]] std::vector<nlohmann::json> merge_timelines(std::vector<TimelineFile> files);

// A timeline as a file has it.
[[nodiscard]] std::string timeline_text(const std::vector<nlohmann::json>& events);

}  // namespace weft
