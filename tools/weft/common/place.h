// `--place`: the search for seats that `weft map` and `weft predict` have in common. Internal to the
// commands.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "topology/rails/rails.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weft {

// As typed on the command line.
struct PlaceArguments {
  bool is_asked = false;
  double seconds = 10;
  int swaps = 1'000'000;
  std::uint64_t seed = 1;
};
// --place, --seconds, --swaps and --seed. Returns the first.
CLI::Option* add_place_options(CLI::App& command, PlaceArguments& to);

// A graph by its name; of a schedule, the edges of all its steps at once. Mapping takes 150 bytes
// and a microsecond for each.
inline constexpr std::int64_t kMostMappedEdges = 4'000'000;
[[nodiscard]] Result<Graph> all_edges(const std::string& name, int ranks);

// `seats`: only the first so many; 0: all. Being told to stop ends it with the best so far.
[[nodiscard]] Result<FoundPlacement> search_seats(const PlaceArguments& asked,
                                                  const Cluster& cluster, const Graph& graph,
                                                  const MapOptions& options, int seats = 0);

// ", 32.0 messages between leaves, 8.0 between switches of level 1": RailMap::between_switches.
[[nodiscard]] std::string between_text(const std::vector<double>& between_switches);
// Three lines: the identity's cost, greedy's, and what came of the swaps.
[[nodiscard]] std::string text(const FoundPlacement& found);
// Null if there was no search.
[[nodiscard]] nlohmann::ordered_json json_of(const FoundPlacement* found);

}  // namespace weft
