// What a choice of rails answers.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "topology/rails/rails.h"

namespace weft {

Placement Placement::identity(int ranks) {
  Placement placement;
  placement.seat.resize(static_cast<std::size_t>(ranks));
  std::iota(placement.seat.begin(), placement.seat.end(), 0);
  return placement;
}

std::vector<Edge> edges_between_seats(const Graph& graph, const Placement& placement) {
  std::vector<Edge> edges = graph.edges();
  for (Edge& edge : edges) {
    edge.from = placement.seat[static_cast<std::size_t>(edge.from)];
    edge.to = placement.seat[static_cast<std::size_t>(edge.to)];
  }
  return edges;
}

std::string_view name(RailPolicy policy) {
  switch (policy) {
    case RailPolicy::automatic:
      return "auto";
    case RailPolicy::near:
      return "near";
    case RailPolicy::all:
      return "all";
  }
  return {};
}

Result<RailPolicy> rail_policy(std::string_view text) {
  for (const RailPolicy policy : {RailPolicy::automatic, RailPolicy::near, RailPolicy::all})
    if (name(policy) == text) return policy;
  return Status(Code::invalid_argument, fmt::format("'{}': there are auto, near, all", text));
}

void RailUse::rails_between(Rank from, Rank to, std::vector<int>& rails) const {
  rails.clear();
  const int a = machine_of_[static_cast<std::size_t>(from)];
  const int b = machine_of_[static_cast<std::size_t>(to)];
  std::ranges::set_intersection(rails_of(from), rails_of(to), std::back_inserter(rails));
  std::erase_if(rails,
                [&](int rail) { return !rails_[static_cast<std::size_t>(rail)].reaches(a, b); });
  if (rails.empty()) rails_of_machines(from, to, rails);
}

void RailUse::rails_of_machines(Rank from, Rank to, std::vector<int>& rails) const {
  rails.clear();
  const int a = machine_of_[static_cast<std::size_t>(from)];
  const int b = machine_of_[static_cast<std::size_t>(to)];
  for (std::size_t rail = 0; rail < rails_.size(); ++rail)
    if (rails_[rail].reaches(a, b)) rails.push_back(static_cast<int>(rail));
}

}  // namespace weft
