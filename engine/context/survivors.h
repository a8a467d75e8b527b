// survivors: the ranks that are left of a context when others have died or left, and a new context of
// theirs. They agree on who is left without any exchange: each opens a context under a name that
// stands for the ranks that it takes for alive. If one of these is gone, those who did not know it learn
// it there, and all go on to the next context. A death ends a context on all ranks, so no rank
// stays in one that others have given up. Internal to the module.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/context/core.h"
#include "engine/membership/membership.h"

namespace weft {

struct Survivors {
  std::vector<Rank> ranks;              // in the numbers of the first context, ascending
  std::shared_ptr<Context::Core> core;  // theirs
};

// Collective over those that are left. `first`: the core in whose numbers the ranks are. `present`: who was
// left last, with their core, in which somebody is gone perhaps. `meet` is the first that they do
// together, on each core that is tried, and has a barrier in it. If its error is not that a rank is gone, it
// is returned. `why`: how the present core has failed; it names a rank that is gone. Errors name ranks by the
// numbers of `first`.
[[nodiscard]] Result<Survivors> find_survivors(Context::Core& first, Survivors present, Status why,
                                               const std::function<Status(Context::Core&)>& meet);

// The status of a context of these ranks, in the numbers that they have there.
[[nodiscard]] Status in_numbers_of(const std::vector<Rank>& ranks, const Status& status);

}  // namespace weft
