// rails: which ways the bytes between two ranks take, and where the ranks should sit.
//
// A logical edge (j -> i) between ranks of different machines becomes one way or several: on each
// rail that both use, j's interface and i's interface. What a rank uses, and why, is chosen for all
// ranks together: so that no interface carries much more than its share, and among those choices
// the interfaces near the rank's GPU or processor. Ranks of one machine read each other's memory:
// no way.
//
//   choose_rails   what the ranks use, whoever their peers are
//   share_rails    the same within one machine, for ranks that know where they work
//   map_graph      the ways of a graph's edges, what each link carries, and the time that takes
//   place_ranks    seats in which less has to go between switches
//
// Values and pure functions of values; any thread may call. Equal inputs give equal maps on every
// rank, so nobody has to agree on one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/cluster/cluster.h"
#include "topology/graph/graph.h"
#include "verbs/base/base.h"

namespace weft {

// Which seat each rank takes: seats are numbered machine by machine, as the cluster numbers its
// ranks. The identity unless a search found better. There may be more seats than ranks.
struct Placement {
  std::vector<int> seat;  // by rank

  [[nodiscard]] static Placement identity(int ranks);
  [[nodiscard]] int machine_of(Rank rank, const Cluster& cluster) const {
    return cluster.machine_of(seat[static_cast<std::size_t>(rank)]);
  }
};

// A graph's edges between seats instead of ranks, in the order of Graph::edges().
[[nodiscard]] std::vector<Edge> edges_between_seats(const Graph& graph, const Placement& placement);

enum class RailPolicy : std::uint8_t {
  automatic,  // near on machines where some interface is nearer to a rank than another; else all
  near,  // each rank its nearest interfaces, so that all interfaces have the same share of ranks
  all,   // each rank all that its machine has
};
[[nodiscard]] std::string_view name(RailPolicy policy);
// "auto", "near" or "all".
[[nodiscard]] Result<RailPolicy> rail_policy(std::string_view name);

// What a rank works with: a GPU, else the NUMA node of its cores, by their index; -1: unknown.
struct Workplace {
  int gpu = -1;
  int node = -1;
  friend bool operator==(const Workplace&, const Workplace&) = default;
};
// As launchers bind local rank `rank` of `ranks`: GPUs in turn; without any, the cores in blocks.
[[nodiscard]] Workplace usual_workplace(const Machine& machine, int rank, int ranks);
// "GPU 3", "node 1"; empty where neither is known, or the machine has none of that index.
[[nodiscard]] std::string name(const Machine& machine, Workplace place);
// Less is nearer, equal is equally near; all 0 where the place is unknown. For comparing
// interfaces of one machine as seen from one place.
[[nodiscard]] int how_far(const Machine& machine, Workplace place, const Nic& nic);
// "mlx5_3 and GPU 3 are below one PCI switch".
[[nodiscard]] std::string how_near(const Machine& machine, Workplace place, const Nic& nic);

// Which interfaces the ranks of one machine use: by rank, ascending. far[rank][interface] as
// how_far() has it, rates in any unit, an entry for each interface. Nothing at all: every rank uses
// all of them.
[[nodiscard]] std::vector<std::vector<int>> share_rails(const std::vector<std::vector<int>>& far,
                                                        const std::vector<double>& rates,
                                                        RailPolicy policy);

// The rails that ranks use, whoever their peers are.
class RailUse {
 public:
  // Rails of a rank, ascending; empty: its machine has none.
  [[nodiscard]] std::span<const int> rails_of(Rank rank) const { return choice(rank).rails; }
  // Why these: "mlx5_3 and GPU 3 are below one PCI switch".
  [[nodiscard]] const std::string& reason_of(Rank rank) const { return choice(rank).reason; }
  // Rails that carry the bytes between two ranks of different machines: those that both use, else
  // all that both machines are on; empty: no way between them. The caller's vector is filled.
  // Each rail carries bytes in proportion to the lower rate of its two interfaces.
  void rails_between(Rank from, Rank to, std::vector<int>& rails) const;
  // All that both machines are on, whoever uses them. As a bond has it, two machines use one kind
  // of network: where RDMA reaches over some of these rails, the others are not among them.
  void rails_of_machines(Rank from, Rank to, std::vector<int>& rails) const;
  // All over which the rank's machine sends to another one, ascending.
  [[nodiscard]] std::vector<int> rails_beside(Rank rank) const;
  // Are there rails which rails_of_machines() leaves out for RDMA?
  [[nodiscard]] bool goes_rdma_before(Rank from, Rank to) const;
  // Has a rail that reaches from one rank's machine to the other's RDMA on both?
  [[nodiscard]] bool is_rdma(int rail, Rank from, Rank to) const;

 private:
  friend class RailChooser;
  [[nodiscard]] int machine_of(Rank rank) const {
    return machine_of_[static_cast<std::size_t>(rank)];
  }
  struct Choice {
    std::vector<int> rails;
    std::string reason;
  };
  [[nodiscard]] const Choice& choice(Rank rank) const {
    return choices_[static_cast<std::size_t>(choice_of_[static_cast<std::size_t>(rank)])];
  }

  std::vector<Choice> choices_;  // of equal machines' local ranks: one
  std::vector<int> choice_of_;   // by rank
  std::vector<int> machine_of_;  // by rank
  std::vector<Rail> rails_;
  std::vector<std::vector<bool>> has_rdma_;  // by rail and machine
  std::vector<std::vector<bool>> carries_;   // the same: does the machine send over the rail?
};

// The ranks that a machine has share out its interfaces, in the order of their seats: free seats
// count for nothing, and who sits where does not matter. A rail on which a machine reaches nobody
// is left out. invalid_argument for seats that do not exist or are taken twice; unavailable for a
// rail whose interface the machine does not have (any more). O(ranks * rails), and for each kind of
// machine O(ranks * interfaces^3).
[[nodiscard]] Result<RailUse> choose_rails(const Cluster& cluster, const Placement& placement,
                                           RailPolicy policy = RailPolicy::automatic);

// Transports cut a message into pieces of at most so many bytes (IbOptions, UcxOptions), and a
// piece takes one rail: a message has no more ways than pieces.
inline constexpr double kRdmaPieceBytes = 1 << 18;
inline constexpr double kOtherPieceBytes = 1 << 19;

// A rail that carries this part of an edge's bytes.
struct Way {
  int rail = 0;
  double share = 1;
};

enum class EdgeReason : std::uint8_t {
  memory,  // one machine
  level,   // the graph is a BCube, and only its level's rail reaches
  both_use,
  both_on,  // there is no rail that both use
};

struct MappedEdge {
  Rank from = kNoRank;
  Rank to = kNoRank;
  EdgeReason reason = EdgeReason::memory;
  int level = 0;                  // where that is the reason
  std::vector<Way> ways;          // by rail; none: memory
  bool goes_rdma_before = false;  // rails of other networks are left out
  bool is_short = false;          // rails are left out as the message has fewer pieces
  // Until one message is there: while all edges carry one, and with nothing else under way.
  double us = 0;
  double alone_us = 0;
};
// "both ranks use rails 0, 1": for people.
[[nodiscard]] std::string reason_text(const MappedEdge& edge, const Cluster& cluster);

enum class LinkKind : std::uint8_t { send, receive, up, down, memory, read };

// What one link carries when each edge carries one message.
struct LinkLoad {
  LinkKind kind = LinkKind::send;
  int rail = -1;   // of send, receive, up, down
  int level = 0;   // of up, down
  int number = 0;  // of a machine (send, receive, memory), a switch (up, down), a seat (read)
  // "rail 0: node3 sends", "rail 0: leaf 1 up", "memory of node3", "seat 4 reads".
  std::string name;
  double gbit_per_s = 0;
  double messages = 0;
  double us = 0;
};

struct MapOptions {
  RailPolicy policy = RailPolicy::automatic;
  double bytes = 1 << 20;  // of a message
};

// A graph on a cluster, and one exchange of it: every edge carries one message, all at once.
struct RailMap {
  RailUse use;
  std::vector<MappedEdge> edges;  // as Graph::edges()
  std::vector<LinkLoad> loads;    // of those that carry anything, the one that takes longest first
  double us = 0;                  // until the last edge is done
  // By level: messages that go up through it and down again, on all rails.
  std::vector<double> between_switches{};
};

// Within one machine, edges go through memory; between machines on rails_between(), as the engine
// sends: on the fastest of them, the first of equal ones, where a message has fewer pieces. Errors:
// those of choose_rails, and invalid_argument for a placement of another size than the graph and
// for an edge without a way. O(edges * rails).
[[nodiscard]] Result<RailMap> map_graph(const Cluster& cluster, const Graph& graph,
                                        const Placement& placement, const MapOptions& options);

// What a placement costs: the lower the better, in this order.
struct PlacementCost {
  std::int64_t without_way = 0;  // edges
  double us = 0;                 // RailMap::us
  // As RailMap has it; the highest level counts first.
  std::vector<double> between_switches{};

  // By more than sums in another order can differ.
  [[nodiscard]] bool is_below(const PlacementCost& other) const;
};

struct PlacementSearch {
  MapOptions map;
  int most_swaps = 200'000;  // tried
  std::uint64_t seed = 1;
  std::function<bool()> goes_on;  // asked now and then; false ends the search
  int seats = 0;                  // only the first so many; 0: all
};

struct FoundPlacement {
  Placement placement;  // the identity if nothing was better
  PlacementCost identity;
  PlacementCost greedy;  // ranks next to those that they talk to, switch by switch
  PlacementCost found;
  int swaps = 0;  // tried

  [[nodiscard]] bool is_identity() const;
};

// A search for seats: greedy, then swaps that make the busy links less busy. Never worse than the
// identity. Equal arguments give equal placements unless `goes_on` ended it. Errors: those of
// choose_rails, and invalid_argument for fewer `seats` than ranks. O(edges * log(edges) + swaps * degree * rails).
[[nodiscard]] Result<FoundPlacement> place_ranks(const Cluster& cluster, const Graph& graph,
                                                 const PlacementSearch& search);

}  // namespace weft
