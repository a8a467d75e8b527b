// exchange: the one-phase body that neighbor_allreduce and the direct allreduce share. Internal.
#pragma once

#include "scheduler/plan/builder.h"

namespace weft {

// Sends the whole input along every out-edge and combines it, in rank order, with one message of
// every in-edge into the output.
//
// In place, the peers would still read our input while we overwrite it, and waiting for them would
// deadlock, because they wait for us in the same way. So what peers read is a copy in scratch.
void exchange(PlanBuilder& plan, const View& view, Shape shape, Combining combining, Weight own,
              Weight::Kind messages);

}  // namespace weft
