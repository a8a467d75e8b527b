// own_ranks: a command that starts itself once for each rank, where no launcher has.
#pragma once

#include "tools/weft/common/job.h"

namespace weft {

// This program with its own arguments, as the ranks of a job. Returns the job's exit status.
[[nodiscard]] Result<int> run_own_ranks(int ranks, Binding binding);

}  // namespace weft
