// Describes a graph or a schedule as lines of text for people: size, properties, mixing figures,
// then the edges and weights of every rank (or of every step).
#pragma once

#include <string>
#include <vector>

#include "topology/graph/digraph.h"
#include "topology/graph/schedule.h"

namespace weft {

[[nodiscard]] std::vector<std::string> describe(const Graph& graph);
// Lists the steps of the cover. `mismatch` if the views of two ranks contradict each other.
Result<std::vector<std::string>> describe(const Schedule& schedule);

}  // namespace weft
