// weft perf wire: one path between two processes, for people who know perftest.
#pragma once

#include "tools/weft/commands.h"

namespace weft {

// Adds itself to `weft perf`.
void add_wire(CLI::App& perf, Action& action);

}  // namespace weft
