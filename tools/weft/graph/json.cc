// Keys of graphs, schedules and laws of groups.
#include "tools/weft/graph/json.h"

#include <nlohmann/json.hpp>

#include "verbs/base/base.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

Json edges_of(const Graph& graph) {
  Json edges = Json::array();
  for (const Edge& edge : graph.edges())
    edges.push_back({{"from", edge.from}, {"to", edge.to}, {"weight", edge.weight}});
  return edges;
}

Json to_object(const Mixing& mixing) {
  return {{"sigma2", mixing.sigma2},
          {"spectral_gap", mixing.spectral_gap},
          {"distance", kMixedDistance},
          {"rounds", mixing.rounds ? Json(*mixing.rounds) : Json()}};
}

// Names may have any byte; JSON may not.
std::string line_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string graph_json(const Graph& graph) {
  return line_of({{"kind", "graph"},
                  {"name", graph.name()},
                  {"ranks", graph.size()},
                  {"max_in_degree", max_in_degree(graph)},
                  {"max_out_degree", max_out_degree(graph)},
                  {"regular", is_regular(graph)},
                  {"undirected", is_undirected(graph)},
                  {"strongly_connected", is_strongly_connected(graph)},
                  {"row_stochastic", is_row_stochastic(graph)},
                  {"column_stochastic", is_column_stochastic(graph)},
                  {"mixing", to_object(mixing(graph))},
                  {"self_weights", graph.self_weights()},
                  {"edges", edges_of(graph)}});
}

Result<std::string> schedule_json(const Schedule& schedule) {
  WEFT_ASSIGN(const Graph united, union_graph(schedule));
  Json steps = Json::array();
  for (std::uint64_t step = 0; step < schedule.cover(); ++step) {
    WEFT_ASSIGN(const Graph graph, step_graph(schedule, step));
    steps.push_back(
        {{"step", step}, {"self_weights", graph.self_weights()}, {"edges", edges_of(graph)}});
  }
  // Of a long period there are no figures, and the reason instead.
  const Result<Mixing> figures = mixing(schedule);
  Json object{{"kind", "schedule"},
              {"name", schedule.name()},
              {"ranks", schedule.size()},
              {"period", schedule.period()},
              {"strongly_connected", is_strongly_connected(united)},
              {"mixing", figures.ok() ? to_object(*figures) : Json()}};
  if (!figures.ok()) object["no_mixing"] = figures.status().text();
  object["steps"] = std::move(steps);
  return line_of(object);
}

std::string groups_json(const GroupMixing& mixing, int machines) {
  return line_of({{"kind", "groups"},
                  {"name", mixing.mean.name()},
                  {"ranks", mixing.mean.size()},
                  {"machines", machines},
                  {"rho", mixing.rho},
                  {"spectral_gap", 1 - mixing.rho},
                  {"rounds", mixing.rounds},
                  {"exact", mixing.is_exact},
                  {"groups", mixing.groups},
                  {"members", mixing.members},
                  {"strongly_connected", is_strongly_connected(mixing.mean)},
                  {"self_weights", mixing.mean.self_weights()},
                  {"edges", edges_of(mixing.mean)}});
}

}  // namespace weft
