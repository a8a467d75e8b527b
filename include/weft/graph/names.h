// Graphs and schedules by name, for tools, bindings and configuration.
#pragma once

#include <weft/graph/digraph.h>
#include <weft/graph/schedule.h>

#include <string_view>
#include <vector>

namespace WEFT_PUBLIC weft {

// One line of help.
struct NamedKind {
  std::string_view name;
  std::string_view alias;      // BlueFog's name for it; empty if it has none
  std::string_view arguments;  // "base=2": keys with their defaults; the first key may be left out
  std::string_view description;
};
[[nodiscard]] std::vector<NamedKind> graph_names();
[[nodiscard]] std::vector<NamedKind> schedule_names();

// "exponential", "exponential:base=4", "ring:style=1", "grid:4x4", "bcube:a=4,b=2",
// "StarGraph:center=2", and with any of them "weights=uniform|metropolis_hastings|push_uniform". An
// unknown name is an error that lists the known ones.
Result<Graph> make_graph(std::string_view spec, int n);

// "one_peer_exponential", "inner_outer_ring:local=4", and "one_peer:GRAPH" with any text that
// make_graph accepts, such as "one_peer:ring:style=1". n is the number of machines for
// machine_exponential, and the number of ranks for all others.
Result<Schedule> make_schedule(std::string_view spec, int n);

}  // namespace weft
