// rails: which rails the bytes between two ranks take, and in which seats the ranks should sit.
//
// An edge (j -> i) between ranks of different machines takes one rail or several: on each rail that
// both ranks use, j's interface sends and i's interface receives. Ranks of one machine read each
// other's memory and need no rail. The interfaces of all ranks are chosen together, by two rules.
// First, no interface carries much more than its share. Second, among the choices that satisfy
// this, a rank uses the interfaces near its GPU or its cores.
//
//   choose_rails   which rails the ranks use, whoever their peers are
//   share_rails    the same within one machine, for ranks that know what they work with
//   map_graph      the rails of a graph's edges, what each link carries, and how long that takes
//   place_ranks    seats in which less data has to go between switches
//
// Values and pure functions of values; any thread may call. Equal inputs give equal maps on every
// rank, so the ranks need not talk to agree on one.
#pragma once

#include <weft/graph.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/cluster/cluster.h"
#include "verbs/base/base.h"

namespace weft {

// Which seat each rank takes. Seats are numbered machine by machine, as the cluster numbers its
// ranks. In the identity, rank r has seat r. There may be more seats than ranks.
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
  near,       // each rank uses near interfaces, and all interfaces have the same share of ranks
  all,        // each rank uses all interfaces of its machine
};
[[nodiscard]] std::string_view name(RailPolicy policy);
// "auto", "near" or "all".
[[nodiscard]] Result<RailPolicy> rail_policy(std::string_view name);

// What a rank works with: a GPU, or else the NUMA node of its cores, by their index. -1: unknown.
struct Workplace {
  int gpu = -1;
  int node = -1;
  friend bool operator==(const Workplace&, const Workplace&) = default;
};
// What launchers usually give local rank `rank` of `ranks`: the GPUs in turn; without GPUs, equal
// blocks of the cores.
[[nodiscard]] Workplace usual_workplace(const Machine& machine, int rank, int ranks);
// "GPU 3", "node 1"; empty if both are unknown, or if the machine has none of that index.
[[nodiscard]] std::string name(const Machine& machine, Workplace place);
// A distance for comparing interfaces of one machine from one place; less is nearer. 0 for all
// interfaces if the place is unknown.
[[nodiscard]] int how_far(const Machine& machine, Workplace place, const Nic& nic);
// "mlx5_3 and GPU 3 are below one PCI switch".
[[nodiscard]] std::string how_near(const Machine& machine, Workplace place, const Nic& nic);

// Which interfaces the ranks of one machine use: for each rank, ascending. far[rank][interface] is
// what how_far() returns. `rates` has an entry for each interface, in any unit. An empty result
// means that every rank uses all interfaces.
[[nodiscard]] std::vector<std::vector<int>> share_rails(const std::vector<std::vector<int>>& far,
                                                        const std::vector<double>& rates,
                                                        RailPolicy policy);

// The rails that ranks use, whoever their peers are.
class RailUse {
 public:
  // The rails of a rank, ascending. Empty if its machine has none.
  [[nodiscard]] std::span<const int> rails_of(Rank rank) const { return choice(rank).rails; }
  // Why the rank uses these: "mlx5_3 and GPU 3 are below one PCI switch".
  [[nodiscard]] const std::string& reason_of(Rank rank) const { return choice(rank).reason; }
  // Fills `rails` with the rails that carry bytes between two ranks of different machines: those
  // that both ranks use, or else all that both machines are on. Empty if no rail connects them.
  // Each rail carries bytes in proportion to the lower rate of its two interfaces.
  void rails_between(Rank from, Rank to, std::vector<int>& rails) const;
  // Fills `rails` with all rails that both machines are on, whoever uses them. Two machines use one
  // kind of network, as in a bond: if RDMA connects them over some of these rails, the others are
  // left out.
  void rails_of_machines(Rank from, Rank to, std::vector<int>& rails) const;
  // All rails over which the rank's machine sends to another machine, ascending.
  [[nodiscard]] std::vector<int> rails_beside(Rank rank) const;
  // True if rails_of_machines() leaves out rails because RDMA goes first.
  [[nodiscard]] bool goes_rdma_before(Rank from, Rank to) const;
  // True if both machines have RDMA on this rail, which connects them.
  [[nodiscard]] bool is_rdma(int rail, Rank from, Rank to) const;
  // The same rails for `times` ranks in the place of each: ranks r * times to (r + 1) * times - 1 use
  // what rank r uses here.
  [[nodiscard]] RailUse repeated(int times) const;

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

  std::vector<Choice> choices_;  // equal local ranks of equal machines share one
  std::vector<int> choice_of_;   // by rank
  std::vector<int> machine_of_;  // by rank
  std::vector<Rail> rails_;
  std::vector<std::vector<bool>> has_rdma_;  // by rail and machine
  std::vector<std::vector<bool>> carries_;   // by rail and machine: it sends over the rail
};

// Divides the interfaces of each machine among its ranks, in the order of their seats. Free seats
// take no share, and it does not matter which rank has which seat. A rail on which a machine
// reaches nobody is left out. Errors: invalid_argument for seats that do not exist or are taken
// twice; unavailable for a rail whose interface the machine does not have, or no more. O(ranks *
// rails), and for each kind of machine O(ranks * interfaces^3).
[[nodiscard]] Result<RailUse> choose_rails(const Cluster& cluster, const Placement& placement,
                                           RailPolicy policy = RailPolicy::automatic);

// The largest pieces into which transports cut a message (IbOptions, UcxOptions). A piece takes one
// rail, so a message takes no more rails than it has pieces.
inline constexpr double kRdmaPieceBytes = 1 << 18;
inline constexpr double kOtherPieceBytes = 1 << 19;

// A rail that carries the part `share` of an edge's bytes.
struct Way {
  int rail = 0;
  double share = 1;
};

enum class EdgeReason : std::uint8_t {
  memory,    // both ranks are on one machine
  level,     // the graph is a BCube, and only the rail of the edge's level connects the machines
  both_use,  // rails that both ranks use
  both_on,   // all rails that both machines are on, as there is none that both ranks use
};

struct MappedEdge {
  Rank from = kNoRank;
  Rank to = kNoRank;
  EdgeReason reason = EdgeReason::memory;
  int level = 0;                  // the level, if that is the reason
  std::vector<Way> ways;          // ascending by rail; empty: memory
  bool goes_rdma_before = false;  // rails of other networks are left out because RDMA goes first
  bool is_short = false;          // rails are left out because the message has fewer pieces
  // Time until one message has arrived: while all edges carry one (us), and with nothing else under
  // way (alone_us).
  double us = 0;
  double alone_us = 0;
};
// "both ranks use rails 0, 1": for people.
[[nodiscard]] std::string reason_text(const MappedEdge& edge, const Cluster& cluster);

enum class LinkKind : std::uint8_t { send, receive, up, down, memory, read };

// What one link carries if each edge carries one message.
struct LinkLoad {
  LinkKind kind = LinkKind::send;
  int rail = -1;   // for send, receive, up, down
  int level = 0;   // for up, down
  int number = 0;  // of the machine (send, receive, memory), the switch (up, down), the seat (read)
  // "rail 0: node3 sends", "rail 0: leaf 1 up", "memory of node3", "seat 4 reads".
  std::string name;
  double gbit_per_s = 0;
  double messages = 0;
  double us = 0;
};

struct MapOptions {
  RailPolicy policy = RailPolicy::automatic;
  double bytes = 1 << 20;  // size of a message
};

// A graph on a cluster, and one exchange: every edge carries one message, all at the same time.
struct RailMap {
  RailUse use;
  std::vector<MappedEdge> edges;  // in the order of Graph::edges()
  std::vector<LinkLoad> loads;    // links that carry anything; the one that takes longest is first
  double us = 0;                  // until the last edge is done
  // By level: the number of messages that go up through the level and down again, on all rails.
  std::vector<double> between_switches{};
};

// Maps a graph as the engine sends. Inside a machine edges go through memory. Between machines they
// take rails_between(); if a message has fewer pieces than there are rails, it takes the fastest of
// them, the first of equal ones. Errors: those of choose_rails, and invalid_argument for a
// placement of another size than the graph, or for an edge between machines that no rail connects.
// O(edges * rails).
[[nodiscard]] Result<RailMap> map_graph(const Cluster& cluster, const Graph& graph,
                                        const Placement& placement, const MapOptions& options);

// The cost of a placement. Costs are compared field by field, in this order; lower is better.
struct PlacementCost {
  std::int64_t without_way = 0;  // edges between machines that no rail connects
  double us = 0;                 // see RailMap::us
  // See RailMap::between_switches. The highest level is compared first.
  std::vector<double> between_switches{};

  // True if this cost is lower by more than rounding in another order of summation can explain.
  [[nodiscard]] bool is_below(const PlacementCost& other) const;
};

struct PlacementSearch {
  MapOptions map;
  int most_swaps = 200'000;  // how many swaps are tried
  std::uint64_t seed = 1;
  std::function<bool()> goes_on;  // called now and then; false ends the search
  int seats = 0;                  // how many seats are searched, from the first; 0: all
};

struct FoundPlacement {
  Placement placement;  // the identity if nothing was better
  PlacementCost identity;
  PlacementCost greedy;  // of the greedy placement from which the search may start
  PlacementCost found;
  int swaps = 0;  // how many were tried
  // Why a caller that knows more than the links has put the identity in the place of what was found;
  // empty: it has not.
  std::string rejected{};

  [[nodiscard]] bool is_identity() const;
};

// Searches for seats: first a greedy placement, then swaps that make busy links less busy. The
// result is never worse than the identity. Equal arguments give equal placements, unless `goes_on`
// ended the search. Errors: those of choose_rails, and invalid_argument for fewer `seats` than
// ranks. O(edges * log(edges) + swaps * degree * rails).
[[nodiscard]] Result<FoundPlacement> place_ranks(const Cluster& cluster, const Graph& graph,
                                                 const PlacementSearch& search);

}  // namespace weft
