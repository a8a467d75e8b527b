// What a choice of rails answers.
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
  return policy == RailPolicy::near ? "near" : "all";
}

void RailUse::rails_between(Rank from, Rank to, std::vector<int>& rails) const {
  rails.clear();
  const int a = machine_of_[static_cast<std::size_t>(from)];
  const int b = machine_of_[static_cast<std::size_t>(to)];
  std::ranges::set_intersection(rails_of(from), rails_of(to), std::back_inserter(rails));
  std::erase_if(rails,
                [&](int rail) { return !rails_[static_cast<std::size_t>(rail)].reaches(a, b); });
  if (!rails.empty()) return;
  for (std::size_t rail = 0; rail < rails_.size(); ++rail)
    if (rails_[rail].reaches(a, b)) rails.push_back(static_cast<int>(rail));
}

}  // namespace weft
