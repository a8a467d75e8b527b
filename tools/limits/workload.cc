// Recipes: each collective reduced to "who reads whom".
#include "tools/limits/workload.h"

#include <algorithm>
#include <array>
#include <string>

namespace weft {
namespace {

constexpr std::array kNames = {std::string_view{"neighbor_allreduce"},
                               std::string_view{"neighbor_allgather"},
                               std::string_view{"allreduce"},
                               std::string_view{"broadcast"},
                               std::string_view{"barrier"},
                               std::string_view{"allgather"},
                               std::string_view{"reduce_scatter"},
                               std::string_view{"reduce"},
                               std::string_view{"gather"},
                               std::string_view{"scatter"},
                               std::string_view{"alltoall"},
                               std::string_view{"hierarchical_neighbor_allreduce"}};

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

Recipe with_everybody(int size, Rank rank, bool concatenates) {
  Recipe made;
  made.concatenates = concatenates;
  for (Rank other = 0; other < size; ++other) {
    made.sources.push_back({other, concatenates ? 1 : 1.0 / size});
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

// The root has what it would have with everybody, the others have nothing.
Recipe to_root(int size, Rank rank, bool concatenates) {
  if (rank == kRoot) return with_everybody(size, rank, concatenates);
  Recipe made;
  made.concatenates = concatenates;
  made.readers.push_back(kRoot);
  return made;
}

Recipe by_blocks(Recipe made, int size) {
  made.blocks = static_cast<std::uint32_t>(size);
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
  const int size = graph.size();
  switch (collective) {
    case Workload::neighbor_allreduce:
    case Workload::hierarchical_neighbor_allreduce:
      return with_neighbors(graph, rank, false);
    case Workload::neighbor_allgather:
      return with_neighbors(graph, rank, true);
    case Workload::allreduce:
    case Workload::barrier:
      return with_everybody(size, rank, false);
    case Workload::broadcast:
      return from_root(size, rank);
    case Workload::allgather:
      return with_everybody(size, rank, true);
    case Workload::reduce_scatter:
      return by_blocks(with_everybody(size, rank, false), size);
    case Workload::reduce:
      return to_root(size, rank, false);
    case Workload::gather:
      return to_root(size, rank, true);
    case Workload::scatter:
      return by_blocks(from_root(size, rank), size);
    case Workload::alltoall:
      return by_blocks(with_everybody(size, rank, true), size);
  }
  invariant(false, "a collective without a recipe");
  return {};
}

Recipe over_machines(const Recipe& machines, const std::vector<int>& machine_of) {
  Recipe made;
  for (std::size_t rank = 0; rank < machine_of.size(); ++rank) {
    const int machine = machine_of[rank];
    const auto source = std::ranges::find(machines.sources, machine, &Recipe::Source::rank);
    if (source == machines.sources.end()) continue;
    const auto ranks = static_cast<double>(std::ranges::count(machine_of, machine));
    made.sources.push_back({static_cast<Rank>(rank), source->weight / ranks});
  }
  return made;
}

CountedBytes counted_bytes(Workload collective, double bytes, int ranks, double degree) {
  const auto n = static_cast<double>(ranks);
  switch (collective) {
    case Workload::neighbor_allreduce:
    case Workload::neighbor_allgather:
    case Workload::hierarchical_neighbor_allreduce:
      return {bytes, bytes * degree};
    case Workload::allreduce:
      return {bytes, bytes * 2 * (n - 1) / n};
    case Workload::allgather:
    case Workload::reduce_scatter:
    case Workload::gather:
    case Workload::scatter:
    case Workload::alltoall:
      return {bytes * n, bytes * (n - 1)};
    case Workload::broadcast:
    case Workload::reduce:
      return {bytes, bytes};
    case Workload::barrier:
      break;
  }
  return {};
}

bool has_floor(Workload collective) {
  switch (collective) {
    case Workload::reduce_scatter:
    case Workload::reduce:
    case Workload::gather:
    case Workload::scatter:
    case Workload::alltoall:
    case Workload::hierarchical_neighbor_allreduce:
      return false;
    default:
      return true;
  }
}

std::size_t output_count(const Recipe& recipe, std::size_t count) {
  if (recipe.concatenates) return recipe.sources.size() * count;
  return recipe.sources.empty() ? 0 : count;
}

}  // namespace weft
