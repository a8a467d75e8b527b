// survivors: the ranks that are left of a context when others have died or left, and a new context of
// theirs, into which ranks that have come back may be let. They agree on who is left without any exchange: each opens a context under a name that
// stands for the ranks that it takes for alive. If one of these is gone, those who did not know it learn
// it there, and all go on to the next context. A death ends a context on all ranks, so no rank
// stays in one that others have given up. Internal to the module.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/context/core.h"
#include "engine/context/entrance.h"
#include "engine/membership/membership.h"

namespace weft {

struct Survivors {
  std::vector<Rank> ranks;              // in the numbers of the first context, ascending
  std::shared_ptr<Context::Core> core;  // theirs
};

// Looks whether ranks are let in; null as long as none are. Does not wait.
using LookForEntrance = std::function<Result<const Entrance*>()>;

struct Regrouping {
  // The first that they do together behind a barrier, on each core that is tried. If its error is not that a rank is
  // gone, it is returned. Empty: nothing.
  std::function<Status(const Survivors&)> meet;
  LookForEntrance look;  // empty: no rank can be let in
};

// Collective over those that are left. `first`: the core in whose numbers the ranks are. `own`: this rank, in these.
// `present`: who was left last, with their core, in which somebody is gone perhaps. `why`: how the present core
// has failed; it names a rank that is gone. Or ok, if only ranks are let in. Errors name ranks by the numbers of `first`.
[[nodiscard]] Result<Survivors> find_survivors(Context::Core& first, Rank own, Survivors present,
                                               Status why, const Regrouping& regrouping);

// A mismatch may come of a death: who has heard of it does something else than who has not. If a rank is gone, or
// proves to be within a moment, that is the status; else the given one.
[[nodiscard]] Status death_behind(Context::Core& core, const Status& status);

// The status of a context of these ranks, in the numbers that they have there.
[[nodiscard]] Status in_numbers_of(const std::vector<Rank>& ranks, const Status& status);

}  // namespace weft
