// weft perf strategies: ways to train one model together, with and without a slow rank.
#pragma once

#include "tools/weft/commands.h"

namespace weft {

// Adds itself to `weft perf`.
void add_strategies(CLI::App& perf, Action& action);

}  // namespace weft
