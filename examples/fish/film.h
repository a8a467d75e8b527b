// film: the swimming school as an animated drawing. Values and pure functions.
#pragma once

#include <string>
#include <vector>

#include "examples/fish/school.h"

namespace fish {

// One moment.
struct Frame {
  int step = 0;
  Point predator;
  std::vector<Fish> school;  // by rank
};

// The frames one after another, for ever, with straight movements in between. Viewers without
// animation show the frame `still`. At least one frame.
[[nodiscard]] std::string film(const std::vector<Frame>& frames, std::size_t still);

}  // namespace fish
