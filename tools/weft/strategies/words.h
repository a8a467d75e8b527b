// words: strategies with their options, and stragglers, as command lines have them. Pure.
#pragma once

#include <weft/strategies.h>

#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct Contestant {
  std::string label;  // as typed
  std::string name;
  StrategyOptions options;
};

// "ring,diloco/section=20/outer_rate=0.5". `known`: the names there are; `rate`: where none is given. Errors
// begin with --strategies.
[[nodiscard]] Result<std::vector<Contestant>> contestants(const std::string& list,
                                                          const std::vector<std::string>& known,
                                                          double rate);

// Iteration times that a rank sleeps more: "+2x,+5x" is 0, 2 and 5; "none" is 0. Errors begin with
// --straggler.
[[nodiscard]] Result<std::vector<double>> stragglers(const std::string& list);
// "+2x"; "none" of 0.
[[nodiscard]] std::string straggler_text(double times);

}  // namespace weft
