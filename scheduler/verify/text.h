// A plan as text for people who write planners.
#pragma once

#include <string>

#include "scheduler/plan/plan.h"

namespace weft {

// One line for the plan and one for each step. `view` names the peers.
[[nodiscard]] std::string to_text(const Plan& plan, const View& view);

}  // namespace weft
