// Recipes: each collective reduced to "who reads whom".
#include "engine/limits/workload.h"

#include <array>
#include <string>

namespace weft {
namespace {

constexpr std::array kNames = {
    std::string_view{"neighbor_allreduce"}, std::string_view{"neighbor_allgather"},
    std::string_view{"allreduce"}, std::string_view{"broadcast"}, std::string_view{"barrier"}};

constexpr Rank kRoot = 0;

Recipe with_neighbors(const Graph& graph, Rank rank, bool concatenates) {
  Recipe made;
  made.concatenates = concatenates;
  bool self_is_next = !concatenates;
  for (const Peer& peer : graph.in_edges(rank)) {
    if (self_is_next && peer.rank > rank) {
      made.sources.push_back({rank, graph.self_weight(rank)});
      self_is_next = false;
    }
    made.sources.push_back({peer.rank, concatenates ? 1 : peer.weight});
  }
  if (self_is_next) made.sources.push_back({rank, graph.self_weight(rank)});
  for (const Peer& peer : graph.out_edges(rank)) made.readers.push_back(peer.rank);
  return made;
}

Recipe with_everybody(int size, Rank rank) {
  Recipe made;
  for (Rank other = 0; other < size; ++other) {
    made.sources.push_back({other, 1.0 / size});
    if (other != rank) made.readers.push_back(other);
  }
  return made;
}

Recipe from_root(int size, Rank rank) {
  Recipe made;
  made.sources.push_back({kRoot, 1});
  for (Rank other = 0; rank == kRoot && other < size; ++other) {
    if (other != kRoot) made.readers.push_back(other);
  }
  return made;
}

}  // namespace

std::string_view name(Workload collective) {
  return kNames[static_cast<std::size_t>(collective)];
}

Result<Workload> workload(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Workload>(i);
    known += (i == 0 ? "" : ", ") + std::string(kNames[i]);
  }
  return Status(Code::invalid_argument,
                "unknown operation '" + std::string(name) + "'; there are " + known);
}

Recipe recipe(Workload collective, const Graph& graph, Rank rank) {
  switch (collective) {
    case Workload::neighbor_allreduce:
      return with_neighbors(graph, rank, false);
    case Workload::neighbor_allgather:
      return with_neighbors(graph, rank, true);
    case Workload::allreduce:
    case Workload::barrier:
      return with_everybody(graph.size(), rank);
    case Workload::broadcast:
      return from_root(graph.size(), rank);
  }
  invariant(false, "a collective without a recipe");
  return {};
}

std::size_t output_count(Workload collective, const Recipe& recipe, std::size_t count) {
  return collective == Workload::neighbor_allgather ? recipe.sources.size() * count : count;
}

}  // namespace weft
