// What a choice of rails answers.
#include <algorithm>
#include <functional>
#include <numeric>

#include "topology/rails/rails.h"
#include "topology/rails/reach.h"

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

void RailUse::rails_between(Rank from, Rank to, std::vector<int>& rails) const {
  rails_of_machines(from, to, rails);
  const auto is_used = [&](int rail) {
    return std::ranges::binary_search(rails_of(from), rail) &&
           std::ranges::binary_search(rails_of(to), rail);
  };
  if (std::ranges::none_of(rails, is_used)) return;
  std::erase_if(rails, std::not_fn(is_used));
}

void RailUse::rails_of_machines(Rank from, Rank to, std::vector<int>& rails) const {
  find_rails_between(rails_, has_rdma_, machine_of(from), machine_of(to), rails);
}

std::vector<int> RailUse::rails_beside(Rank rank) const {
  std::vector<int> rails;
  for (std::size_t rail = 0; rail < carries_.size(); ++rail) {
    if (carries_[rail][static_cast<std::size_t>(machine_of(rank))])
      rails.push_back(static_cast<int>(rail));
  }
  return rails;
}

bool RailUse::is_rdma(int rail, Rank from, Rank to) const {
  return is_rdma_between(has_rdma_[static_cast<std::size_t>(rail)], machine_of(from),
                         machine_of(to));
}

RailUse RailUse::repeated(int times) const {
  RailUse use = *this;
  use.choice_of_.clear();
  use.machine_of_.clear();
  for (std::size_t rank = 0; rank < choice_of_.size(); ++rank) {
    use.choice_of_.insert(use.choice_of_.end(), static_cast<std::size_t>(times), choice_of_[rank]);
    use.machine_of_.insert(use.machine_of_.end(), static_cast<std::size_t>(times),
                           machine_of_[rank]);
  }
  return use;
}

bool RailUse::goes_rdma_before(Rank from, Rank to) const {
  bool has_rdma = false;
  bool has_other = false;
  for (int rail = 0; rail < std::ssize(rails_); ++rail) {
    if (!rails_[static_cast<std::size_t>(rail)].reaches(machine_of(from), machine_of(to))) continue;
    (is_rdma(rail, from, to) ? has_rdma : has_other) = true;
  }
  return has_rdma && has_other;
}

}  // namespace weft
