// work: copies of requests, and the edges of neighbor operations.
#include "engine/named/work.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "scheduler/negotiate/negotiate.h"

namespace weft::named {
namespace {

Status invalid(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

// Sorts a list of weights by rank, and checks it: ranks of the job, others than this one, each once.
Status tidy(std::vector<NeighborWeight>& list, std::string_view what, std::string_view name,
            Rank rank, int size) {
  std::ranges::sort(list, {}, &NeighborWeight::rank);
  Rank previous = kNoRank;
  for (const NeighborWeight& each : list) {
    if (each.rank < 0 || each.rank >= size || each.rank == rank) {
      return invalid(fmt::format("{}: {} names rank {}; it must be another of the ranks 0…{}", what,
                                 name, each.rank, size - 1));
    }
    if (each.rank == previous)
      return invalid(fmt::format("{}: {} names rank {} twice", what, name, each.rank));
    WEFT_RETURN_IF_ERROR(check_weight(what, each.weight, each.rank));
    previous = each.rank;
  }
  return {};
}

std::vector<NeighborWeight> copied(std::span<const NeighborWeight> list) {
  return {list.begin(), list.end()};
}

Edges edges_of_graph(const GraphOfCalls& in, Rank rank) {
  Edges edges;
  const auto sources = in.graph.in_edges(rank);
  const double uniform = 1.0 / static_cast<double>(sources.size() + 1);
  edges.self_weight = in.is_weighted ? in.graph.self_weight(rank) : uniform;
  for (const Peer& peer : sources)
    edges.sources.push_back({peer.rank, in.is_weighted ? peer.weight : uniform});
  for (const Peer& peer : in.graph.out_edges(rank)) edges.destinations.push_back({peer.rank, 1.0});
  return edges;
}

// Every name in `some` must be an edge of the graph.
Status check_are_edges(std::span<const NeighborWeight> some, std::span<const NeighborWeight> edges,
                       std::string_view list, std::string_view kind, const GraphOfCalls& in) {
  for (const NeighborWeight& each : some) {
    if (std::ranges::binary_search(edges, each.rank, {}, &NeighborWeight::rank)) continue;
    return invalid(fmt::format("neighbor_allreduce: {} names rank {}, which is no {} in {}", list,
                               each.rank, kind, in.graph.name()));
  }
  return {};
}

Result<Edges> edges_of_allreduce(const Request& request, const GraphOfCalls& in, Rank rank) {
  constexpr std::string_view kWhat = "neighbor_allreduce";
  Edges edges = edges_of_graph(in, rank);
  if (request.weights == nullptr) return edges;
  const NeighborWeights& weights = *request.weights;
  if ((weights.sources || weights.destinations) && !weights.self)
    return invalid(fmt::format("{}: src_weights and dst_weights need a self_weight", kWhat));
  if (weights.push_sum) WEFT_RETURN_IF_ERROR(check_push_sum(kWhat, weights, "rank", rank));
  if (weights.self) {
    WEFT_RETURN_IF_ERROR(check_weight(kWhat, *weights.self, rank));
    edges.self_weight = *weights.self;
  }
  const int size = in.graph.size();
  if (weights.sources) {
    std::vector<NeighborWeight> given = copied(*weights.sources);
    WEFT_RETURN_IF_ERROR(tidy(given, kWhat, "src_weights", rank, size));
    if (!weights.destinations) {
      // The graph's other in-neighbors send, too; their data is not used.
      WEFT_RETURN_IF_ERROR(check_are_edges(given, edges.sources, "src_weights", "in-neighbor", in));
      for (NeighborWeight& edge : edges.sources) {
        const auto found = std::ranges::lower_bound(given, edge.rank, {}, &NeighborWeight::rank);
        const bool is_used = found != given.end() && found->rank == edge.rank;
        edge.weight = is_used ? found->weight + 0.0 : kUnused;
      }
      return edges;
    }
    edges.sources = std::move(given);
  }
  if (!weights.destinations) return edges;
  std::vector<NeighborWeight> given = copied(*weights.destinations);
  WEFT_RETURN_IF_ERROR(tidy(given, kWhat, "dst_weights", rank, size));
  if (!weights.sources) {
    WEFT_RETURN_IF_ERROR(
        check_are_edges(given, edges.destinations, "dst_weights", "out-neighbor", in));
    for (const NeighborWeight& edge : edges.destinations) {
      if (!std::ranges::binary_search(given, edge.rank, {}, &NeighborWeight::rank))
        edges.skipped.push_back(edge.rank);
    }
    for (NeighborWeight& edge : edges.sources) edge.weight = 1.0;
    edges.may_skip = true;
  }
  edges.destinations = std::move(given);
  return edges;
}

// Edges in both directions with the given ranks.
Result<Edges> edges_with(std::string_view what, std::span<const NeighborWeight> others, Rank rank,
                         int size) {
  Edges edges;
  edges.sources = copied(others);
  WEFT_RETURN_IF_ERROR(tidy(edges.sources, what, "the call", rank, size));
  for (const NeighborWeight& each : edges.sources) edges.destinations.push_back({each.rank, 1.0});
  return edges;
}

Result<Edges> edges_of_group(const Request& request, Rank rank, int size) {
  std::vector<NeighborWeight> others;
  const double weight = 1.0 / static_cast<double>(std::max<std::size_t>(request.group.size(), 1));
  bool has_own = false;
  for (const Rank member : request.group) {
    if (member == rank && !std::exchange(has_own, true)) continue;
    others.push_back({member, weight});
  }
  if (!has_own) return invalid(fmt::format("group_average: rank {} is not in its group", rank));
  WEFT_ASSIGN(Edges edges, edges_with("group_average", others, rank, size));
  edges.self_weight = weight;
  return edges;
}

}  // namespace

void Requests::assign(std::span<const Request> given, Bits bits) {
  const auto names_more = [](const Request& each) {
    return !each.counts.empty() || !each.receive_counts.empty() || !each.group.empty() ||
           each.weights != nullptr || each.feedback != nullptr;
  };
  std::size_t extents = 0;
  for (const Request& each : given) extents += each.shape.size();
  extents_.reserve(extents);  // the requests point there
  all_.reserve(given.size());
  for (const Request& each : given) {
    if (names_more(each)) {
      all_.push_back(owned_.emplace_back(std::make_unique<OwnedRequest>(each, bits))->get());
      continue;
    }
    Request& copy = all_.emplace_back(each);
    if (copy.bits == Bits::automatic) copy.bits = bits;
    const auto shape = extents_.insert(extents_.end(), each.shape.begin(), each.shape.end());
    copy.shape = {shape, each.shape.size()};
  }
}

Status check_parts(const Request& request, const Edges& edges) {
  const std::string_view what = name(request.collective);
  if (request.collective == Collective::send) return {};
  if (request.collective != Collective::neighbor_allgather) {
    if (is_floating(request.input.type)) return {};
    return invalid(fmt::format("{}: weighted sums of {} have no meaning; use a floating type", what,
                               name(request.input.type)));
  }
  const std::span<const std::size_t> counts = request.counts;
  if (!counts.empty() && counts.size() != edges.sources.size()) {
    return invalid(fmt::format("{}: {} counts for {} in-neighbors", what, counts.size(),
                               edges.sources.size()));
  }
  std::size_t all = edges.sources.size() * request.input.count;
  if (!counts.empty()) all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (all == request.output.count) return {};
  return invalid(fmt::format("{}: the in-neighbors' parts have {} elements, the output {}", what,
                             all, request.output.count));
}

std::vector<std::size_t> common_shape(const Request& request) {
  std::vector<std::size_t> shape(request.shape.begin(), request.shape.end());
  if (request.collective == Collective::send) return {};  // any shape may be received into
  const bool has_blocks =
      has<kHasCounts>(request.collective) && !has<kHasOperator>(request.collective);
  if (has_blocks && !shape.empty()) shape.front() = kAnyExtent;
  return shape;
}

bool is_of_neighbors(Collective collective) {
  return has<kOnGraph>(collective) || has<kOfSomeRanks>(collective);
}

Result<Edges> edges_of(const Request& request, const GraphOfCalls& graph, Rank rank) {
  const int size = graph.graph.size();
  switch (request.collective) {
    case Collective::pair_average: {
      WEFT_RETURN_IF_ERROR(check_weight("pair_average", request.self_weight, rank));
      const NeighborWeight other{request.peer, request.pair_weight};
      WEFT_ASSIGN(Edges edges, edges_with("pair_average", {&other, 1}, rank, size));
      edges.self_weight = request.self_weight;
      return edges;
    }
    case Collective::group_average:
      return edges_of_group(request, rank, size);
    case Collective::send: {
      const NeighborWeight other{request.peer, 1.0};
      WEFT_ASSIGN(Edges edges,
                  edges_with(request.receives ? "recv" : "send", {&other, 1}, rank, size));
      (request.receives ? edges.destinations : edges.sources).clear();
      return edges;
    }
    case Collective::neighbor_allgather:
      return edges_of_graph(graph, rank);
    default:
      return edges_of_allreduce(request, graph, rank);
  }
}

}  // namespace weft::named
