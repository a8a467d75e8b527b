// Describes a graph or a schedule as lines of text for people: size, properties, mixing figures,
// then the edges and weights of every rank (or of every step).
#pragma once

#include <weft/graph/digraph.h>
#include <weft/graph/schedule.h>

#include <string>
#include <vector>

namespace WEFT_PUBLIC weft {

[[nodiscard]] std::vector<std::string> describe(const Graph& graph);
// Lists the steps of the cover. `mismatch` if the views of two ranks contradict each other.
Result<std::vector<std::string>> describe(const Schedule& schedule);

}  // namespace weft
