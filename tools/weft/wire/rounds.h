// The order of a measurement by `weft perf wire`: rank 0 says what comes next and reports, rank 1
// does its part.
#pragma once

#include "engine/config/config.h"
#include "tools/weft/wire/line.h"
#include "tools/weft/wire/options.h"

namespace weft {

// Rank 0. `host`: where rank 1 runs, for perftest's own connection.
Status lead_wire(const WireOptions& options, Line& line, const std::string& host,
                 const Config& config);
// Rank 1, on that device; what to measure comes over the line.
Status follow_wire(const WireDevice& device, Line& line, const Config& config);

}  // namespace weft
