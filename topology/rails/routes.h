// The rails of edges between seats, and the links that these use. Internal to the module.
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

// How one edge is carried. The object is reused, so that finding the next route allocates nothing.
struct Route {
  int from_machine = 0;
  int to_machine = 0;
  int to_seat = 0;
  EdgeReason reason = EdgeReason::memory;
  bool is_short = false;
  std::vector<Way> ways;
  std::vector<int> rails;  // scratch

  [[nodiscard]] bool exists() const { return reason == EdgeReason::memory || !ways.empty(); }
};

class Routes {
 public:
  // Routes between the seats that are taken. Keeps a reference to the cluster.
  static Result<Routes> make(const Cluster& cluster, const Placement& placement,
                             const MapOptions& options);

  // Finds the route between two seats, which must be taken.
  void find(Seats seats, Route& route) const;
  [[nodiscard]] double latency_us(const Route& route) const;
  // Calls visit(link, share) for each link that the edge's bytes pass.
  template <class Visit>
  void visit_links(const Route& route, Visit visit) const {
    if (route.reason == EdgeReason::memory) {
      visit(links_.memory(route.to_machine), 1.0);
      visit(links_.reads(route.to_seat), 1.0);
    }
    for (const Way& way : route.ways) {
      visit(links_.sends(way.rail, route.from_machine), way.share);
      visit(links_.receives(way.rail, route.to_machine), way.share);
      const Rail& rail = cluster_->rails[static_cast<std::size_t>(way.rail)];
      rail.visit_levels(route.from_machine, route.to_machine, [&](int level, int from, int to) {
        visit(links_.up(way.rail, level, from), way.share);
        visit(links_.down(way.rail, level, to), way.share);
      });
    }
  }
  [[nodiscard]] const Links& links() const { return links_; }
  [[nodiscard]] const Cluster& cluster() const { return *cluster_; }
  [[nodiscard]] const RailUse& use() const { return use_; }

 private:
  Routes(const Cluster& cluster, const Placement& placement, RailUse use, double bytes);
  // Keeps the fastest rails, the first of equal ones, but no more than a message has pieces.
  void keep_one_for_each_piece(bool is_rdma, Route& route) const;

  const Cluster* cluster_;
  Links links_;
  RailUse use_;
  double bytes_;                 // size of a message
  std::vector<int> machine_of_;  // by seat
  std::vector<Rank> rank_at_;    // by seat; kNoRank: free
};

}  // namespace weft
