// A graph, a schedule or a law of groups as one JSON object. Weights have all their digits: a program that reads them
// has the same doubles.
#pragma once

#include <weft/graph.h>

#include <string>

#include "scheduler/partial/partial.h"

namespace weft {

[[nodiscard]] std::string graph_json(const Graph& graph);
// With every step of one period's cover.
[[nodiscard]] Result<std::string> schedule_json(const Schedule& schedule);
// A law of groups, with the matrix E[W'W] of its rounds.
[[nodiscard]] std::string groups_json(const GroupMixing& mixing, int machines);

}  // namespace weft
