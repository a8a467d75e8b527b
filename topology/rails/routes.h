// Internal to the module: the ways of edges between seats, and the links that they use.
#pragma once

#include <vector>

#include "topology/rails/links.h"
#include "topology/rails/rails.h"

namespace weft {

// Where the two ranks of an edge sit.
struct Seats {
  int from;
  int to;
};

// The way of one edge; reused, so that finding the next allocates nothing.
struct Route {
  int from_machine = 0;
  int to_machine = 0;
  int to_seat = 0;
  EdgeReason reason = EdgeReason::memory;
  std::vector<Way> ways;
  std::vector<int> rails;  // scratch

  [[nodiscard]] bool exists() const { return reason == EdgeReason::memory || !ways.empty(); }
};

class Routes {
 public:
  // Keeps a reference to the cluster.
  static Result<Routes> make(const Cluster& cluster, RailPolicy policy);

  void find(Seats seats, Route& route) const;
  [[nodiscard]] double latency_us(const Route& route) const;
  // Calls visit(link, share) for everything that the edge's bytes pass.
  template <class Visit>
  void visit_links(const Route& route, Visit visit) const {
    if (route.reason == EdgeReason::memory) {
      visit(links_.memory(route.to_machine), 1.0);
      visit(links_.reads(route.to_seat), 1.0);
    }
    for (const Way& way : route.ways) {
      visit(links_.sends(way.rail, route.from_machine), way.share);
      visit(links_.receives(way.rail, route.to_machine), way.share);
      if (!passes_spine(way.rail, route)) continue;
      const Rail& rail = cluster_->rails[static_cast<std::size_t>(way.rail)];
      visit(links_.up(way.rail, rail.leaf_of(route.from_machine)), way.share);
      visit(links_.down(way.rail, rail.leaf_of(route.to_machine)), way.share);
    }
  }
  [[nodiscard]] bool passes_spine(int rail, const Route& route) const {
    const Rail& one = cluster_->rails[static_cast<std::size_t>(rail)];
    return one.leaf_of(route.from_machine) != one.leaf_of(route.to_machine);
  }
  [[nodiscard]] double messages_between_leaves(const Route& route) const;
  [[nodiscard]] const Links& links() const { return links_; }

 private:
  Routes(const Cluster& cluster, RailUse use);

  const Cluster* cluster_;
  Links links_;
  RailUse use_;                  // by seat
  std::vector<int> machine_of_;  // by seat
};

}  // namespace weft
