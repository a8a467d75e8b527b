// The options of the search, its bounds, and the lines about its result.
#include "tools/weft/common/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/weft/common/progress.h"
#include "tools/weft/common/range.h"
#include "tools/weft/common/stop.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

std::string text(const PlacementCost& cost) {
  std::string text = fmt::format("{:.2f} us{}", cost.us, between_text(cost.between_switches));
  return cost.without_way == 0 ? text
                               : text + fmt::format(", {} edges without a way", cost.without_way);
}

Json to_object(const PlacementCost& cost) {
  return {{"without_way", cost.without_way},
          {"us", cost.us},
          {"between_switches", cost.between_switches}};
}

}  // namespace

std::string between_text(const std::vector<double>& between_switches) {
  std::string text;
  for (std::size_t level = 0; level < between_switches.size(); ++level) {
    text += level == 0 ? fmt::format(", {:.1f} messages between leaves", between_switches[level])
                       : fmt::format(", {:.1f} between switches of level {}",
                                     between_switches[level], level);
  }
  return text;
}

CLI::Option* add_place_options(CLI::App& command, PlaceArguments& to) {
  CLI::Option* place =
      command.add_flag("--place", to.is_asked, "Search for better seats for the ranks");
  command.add_option("--seconds", to.seconds, "The search takes at most so many seconds")
      ->capture_default_str()
      ->check(number_in(0.001, 3600.0))
      ->needs(place);
  command.add_option("--swaps", to.swaps, "And tries at most so many swaps")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000'000))
      ->needs(place);
  command.add_option("--seed", to.seed, "Of the search")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->needs(place);
  return place;
}

Result<Graph> all_edges(const std::string& name, int ranks) {
  Result<Graph> graph = make_graph(name, ranks);
  if (!graph.ok()) {
    const Result<Schedule> schedule = make_schedule(name, ranks);
    if (!schedule.ok()) return graph;
    WEFT_ASSIGN(const Graph all, union_graph(*schedule));
    graph = all.renamed(name);
  }
  if (graph->edge_count() <= kMostMappedEdges) return graph;
  return Status(Code::invalid_argument,
                fmt::format("{} of {} ranks has {} edges; at most {} are mapped", name, ranks,
                            graph->edge_count(), kMostMappedEdges));
}

Result<FoundPlacement> search_seats(const PlaceArguments& asked, const Cluster& cluster,
                                    const Graph& graph, const MapOptions& options, int seats) {
  constexpr double kMs = 1e3;
  const Deadline end = Deadline::after_ms(static_cast<std::int64_t>(asked.seconds * kMs));
  Progress progress("weft");
  const auto goes_on = [&] {
    const double left_s = end.left_ms() / kMs;
    progress.say(fmt::format("searching for seats of {} ranks: {:.0f} of {} s", graph.size(),
                             std::max(asked.seconds - left_s, 0.0), asked.seconds));
    return !end.passed() && !is_told_to_stop();
  };
  return place_ranks(cluster, graph,
                     {.map = options,
                      .most_swaps = asked.swaps,
                      .seed = asked.seed,
                      .goes_on = goes_on,
                      .seats = seats});
}

std::string text(const FoundPlacement& found) {
  const std::string result = !found.rejected.empty()
                                 ? fmt::format("links had better seats, but {}", found.rejected)
                             : found.is_identity() ? "nothing better than the identity"
                                                   : text(found.found);
  return fmt::format("identity     {}\ngreedy       {}\n{} swaps tried: {}\n", text(found.identity),
                     text(found.greedy), found.swaps, result);
}

Json json_of(const FoundPlacement* found) {
  if (found == nullptr) return nullptr;
  return {{"identity", to_object(found->identity)},
          {"greedy", to_object(found->greedy)},
          {"found", to_object(found->found)},
          {"swaps", found->swaps},
          {"is_identity", found->is_identity()},
          {"rejected", found->rejected.empty() ? Json() : Json(found->rejected)}};
}

}  // namespace weft
