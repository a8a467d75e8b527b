// exchange: the one-phase body that neighbor_allreduce and the direct allreduce share. Internal.
#pragma once

#include "scheduler/plan/builder.h"

namespace weft {

// Sends the whole input along every out-edge and combines it, in rank order, with one message of
// every in-edge into the output.
//
// In place, the peers might still read our input while we overwrite it. Waiting for them would be a
// deadlock, because they wait for us in the same way. The peers therefore read a copy in scratch.
void exchange(PlanBuilder& plan, const View& view, Shape shape, Combining combining, Weight own,
              Weight::Kind messages);

}  // namespace weft
