// named_graph: what the name of a graph or of a schedule makes, for commands that take both.
#pragma once

#include <weft/graph/digraph.h>
#include <weft/graph/schedule.h>
#include <weft/status.h>

#include <string_view>
#include <variant>

namespace weft {

using GraphOrSchedule = std::variant<Graph, Schedule>;

// invalid_argument: nothing has that name, and the text has the nearest one and all that are known; or
// what has it cannot be made so.
[[nodiscard]] Result<GraphOrSchedule> make_graph_or_schedule(std::string_view spec, int n);

}  // namespace weft
