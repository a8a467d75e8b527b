// The states of a path.
#include "verbs/bond/path.h"

namespace weft::bond {

void Path::enter(PathState next) {
  const auto row = static_cast<std::size_t>(state_);
  invariant(kPathTransitions[row][static_cast<std::size_t>(next)],
            "a path takes only transitions of its table");
  state_ = next;
}

bool Path::leave() {
  const bool was_live = live();
  if (was_live) ++losses;
  if (was_live || state_ == PathState::early_probing || state_ == PathState::early_proven)
    enter(PathState::lost);
  else if (state_ == PathState::probing)
    enter(PathState::counted);
  return was_live;
}

}  // namespace weft::bond
