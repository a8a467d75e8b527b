// calls: the operations that a timeline has, as values. Internal to timeline.
#pragma once

#include <weft/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/weft/timeline/files.h"

namespace weft {

inline constexpr const char* kJobContext = "job";

struct TimelineCall {
  std::string title;                    // "allreduce ring"
  std::string name;                     // "allreduce", "recv", …
  std::optional<Collective> operation;  // nothing: Chakra cannot say it
  std::uint64_t number = 0;
  double begin_us = 0, end_us = 0;
  std::optional<std::uint64_t> bytes;
  Rank peer = kNoRank;       // in the context, as the ranks below
  std::set<Rank> receivers;  // to whom it sent
  bool is_over = false;      // and well
};

struct TimelineCalls {
  std::string path;
  std::string context;
  Rank rank = 0;            // in the context
  std::vector<Rank> ranks;  // of the context, their numbers in the job
  std::vector<TimelineCall> calls;
};

// An invalid_argument names the file: it does not say of which context it is.
[[nodiscard]] Result<TimelineCalls> calls_of(const TimelineFile& file);

}  // namespace weft
