// The parts of `weft tune`.
#pragma once

#include <string>

#include "engine/config/config.h"

namespace weft {

// The profile, for people.
[[nodiscard]] std::string explain(const Profile& profile);

}  // namespace weft
