// What a graph or a schedule is, as lines of text for a person: size, properties, mixing figures,
// then every rank's (or every step's) edges and weights.
#pragma once

#include <string>
#include <vector>

#include "topology/graph/digraph.h"
#include "topology/graph/schedule.h"

namespace weft {

[[nodiscard]] std::vector<std::string> describe(const Graph& graph);
// Lists the steps of the cover; a mismatch where the views contradict each other.
Result<std::vector<std::string>> describe(const Schedule& schedule);

}  // namespace weft
