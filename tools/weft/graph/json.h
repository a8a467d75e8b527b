// A graph or a schedule as one JSON object. Weights have all their digits: a program that reads them
// has the same doubles.
#pragma once

#include <weft/graph.h>

#include <string>

namespace weft {

[[nodiscard]] std::string graph_json(const Graph& graph);
// With every step of one period's cover.
[[nodiscard]] Result<std::string> schedule_json(const Schedule& schedule);

}  // namespace weft
