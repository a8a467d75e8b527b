// Recipes: each collective reduced to "who reads whom".
#include "tools/limits/workload.h"

#include <algorithm>
#include <string>

namespace weft {
namespace {

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

std::string measured_names() {
  std::string names;
  for (const CollectiveFacts& each : kCollectiveFacts)
    if (is_measured(each.collective)) names.append(names.empty() ? "" : ", ").append(each.name);
  return names;
}

Result<Collective> measured_operation(std::string_view name) {
  const auto row = std::ranges::find(kCollectiveFacts, name, &CollectiveFacts::name);
  if (row != kCollectiveFacts.end() && is_measured(row->collective)) return row->collective;
  return Status(Code::invalid_argument,
                "unknown operation '" + std::string(name) + "'; there are " + measured_names());
}

Recipe recipe(Collective collective, const Graph& graph, Rank rank) {
  const int size = graph.size();
  switch (collective) {
    case Collective::neighbor_allreduce:
    case Collective::hierarchical_neighbor_allreduce:
      return with_neighbors(graph, rank, false);
    case Collective::neighbor_allgather:
      return with_neighbors(graph, rank, true);
    case Collective::allreduce:
    case Collective::barrier:
      return with_everybody(size, rank, false);
    case Collective::broadcast:
      return from_root(size, rank);
    case Collective::allgather:
      return with_everybody(size, rank, true);
    case Collective::reduce_scatter:
      return by_blocks(with_everybody(size, rank, false), size);
    case Collective::reduce:
      return to_root(size, rank, false);
    case Collective::gather:
      return to_root(size, rank, true);
    case Collective::scatter:
      return by_blocks(from_root(size, rank), size);
    case Collective::alltoall:
      return by_blocks(with_everybody(size, rank, true), size);
    default:
      invariant(false, "a collective without a recipe");
      return {};
  }
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

CountedBytes counted_bytes(Collective collective, double bytes, int ranks, double degree) {
  const auto n = static_cast<double>(ranks);
  switch (collective) {
    case Collective::neighbor_allreduce:
    case Collective::neighbor_allgather:
    case Collective::hierarchical_neighbor_allreduce:
      return {bytes, bytes * degree};
    case Collective::allreduce:
      return {bytes, bytes * 2 * (n - 1) / n};
    case Collective::allgather:
    case Collective::reduce_scatter:
    case Collective::gather:
    case Collective::scatter:
    case Collective::alltoall:
      return {bytes * n, bytes * (n - 1)};
    case Collective::broadcast:
    case Collective::reduce:
      return {bytes, bytes};
    default:
      return {};
  }
}

bool has_floor(Collective collective) {
  switch (collective) {
    case Collective::reduce_scatter:
    case Collective::reduce:
    case Collective::gather:
    case Collective::scatter:
    case Collective::alltoall:
    case Collective::hierarchical_neighbor_allreduce:
      return false;
    default:
      return true;
  }
}

Planned planned(Collective collective, Rank rank, const PlannedCase& of) {
  const std::size_t all = of.bytes * static_cast<std::size_t>(of.size);
  const auto view = [&of](Rank index) { return of.views[static_cast<std::size_t>(index)]; };
  switch (collective) {
    case Collective::neighbor_allreduce:
      return {view(rank), plan_neighbor_allreduce(view(rank), {})};
    case Collective::neighbor_allgather:
      return {view(rank), plan_neighbor_allgather(view(rank), {})};
    case Collective::hierarchical_neighbor_allreduce:
      return plan_hierarchical_neighbor_allreduce(rank, of.layout, view(of.layout.machine_of(rank)),
                                                  {});
    case Collective::allreduce:
      return plan_allreduce(rank, of.size, of.bytes, {}, of.algorithm, of.layout, of.bits);
    case Collective::broadcast:
      return plan_broadcast(rank, of.size, kRoot, of.bytes, {});
    case Collective::barrier:
      return plan_barrier(rank, of.size);
    case Collective::allgather:
      return plan_allgather(rank, of.size, all, {});
    case Collective::reduce_scatter:
      return plan_reduce_scatter(rank, of.size, all, {}, of.bits);
    case Collective::reduce:
      return plan_reduce(rank, of.size, kRoot, of.bytes, {}, of.bits);
    case Collective::gather:
      return plan_gather(rank, of.size, kRoot, {});
    case Collective::scatter:
      return plan_scatter(rank, of.size, kRoot, {});
    case Collective::alltoall:
      return plan_alltoall(rank, of.size, {});
    default:
      invariant(false, "a collective without plans");
      return {};
  }
}

std::size_t output_count(const Recipe& recipe, std::size_t count) {
  if (recipe.concatenates) return recipe.sources.size() * count;
  return recipe.sources.empty() ? 0 : count;
}

}  // namespace weft
