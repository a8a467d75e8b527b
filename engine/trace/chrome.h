// chrome_json: records of all lanes as a Chrome trace (the JSON object format of Google's "Trace
// Event Format" document). A pure function; private to trace.
#pragma once

#include <string>
#include <vector>

#include "engine/trace/ring.h"
#include "engine/trace/trace.h"

namespace weft {

struct ChromeLane {
  std::string name;
  TraceRing::Snapshot snapshot;
};

struct ChromeInput {
  Rank rank = 0;
  TraceContext context;
  std::string machine;      // files with equal ones have one clock
  std::int64_t day_ns = 0;  // of 1970-01-01T00:00Z's clock, when that of the records was 0
  std::vector<ChromeLane> lanes;
  std::vector<std::string>
      operation_names;  // by the argument of operation_begin; [0] is the default
};

// An end whose begin was overwritten is left out. A begin without an end lasts to the last record
// and is marked "unfinished"; after a hang, these are the operations to look for. An operation of several lanes lasts
// from its first begin to its last end.
[[nodiscard]] std::string chrome_json(const ChromeInput& input);

}  // namespace weft
