// context: the implementation of weft/context.h. The module's public header is that one; this name
// stands for it inside the tree.
#pragma once

#include <weft/context.h>
#include <weft/graph.h>

#include "engine/bootstrap/bootstrap.h"
#include "engine/config/config.h"
#include "engine/kernels/kernels.h"
#include "engine/request/request.h"
#include "scheduler/plan/plan.h"
#include "verbs/base/base.h"
#include "verbs/memory/memory.h"

namespace weft {

class GroupHost;

// What partial all-reduce needs of a context. Collective.
[[nodiscard]] Result<std::unique_ptr<GroupHost>> open_group_host(Context& context);

}  // namespace weft
