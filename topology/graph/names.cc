// The tables of names: one row per graph and per schedule, with its arguments and the call that
// makes it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <weft/graph/generators.h>
#include <weft/graph/names.h>
#include <weft/graph/weights.h>
#include <weft/macros.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "topology/graph/arguments.h"

namespace weft {
namespace {

template <typename Made>
struct Kind {
  NamedKind help;
  std::vector<std::string_view> keys;
  Result<Made> (*make)(const Arguments& arguments, int n);
};

Result<Graph> make_exponential(const Arguments& arguments, int n) {
  WEFT_ASSIGN(const int base, arguments.integer("base", 2));
  return exponential_graph(n, base);
}

Result<Graph> make_exponential_two(const Arguments&, int n) {
  return exponential_graph(n, 2);
}

Result<Graph> make_symmetric_exponential(const Arguments& arguments, int n) {
  WEFT_ASSIGN(const int base, arguments.integer("base", 4));
  return symmetric_exponential_graph(n, base);
}

Result<Graph> make_grid(const Arguments& arguments, int n) {
  WEFT_ASSIGN(const std::vector<int> dims, arguments.dimensions("shape"));
  if (dims.empty()) return grid_graph(n);
  if (dims.size() != 2) {
    return Status(Code::invalid_argument,
                  fmt::format("grid: shape {} is not ROWSxCOLUMNS",
                              shown(fmt::format("{}", fmt::join(dims, "x")))));
  }
  return grid_graph(n, GridShape{dims[0], dims[1]});
}

Result<Graph> make_star(const Arguments& arguments, int n) {
  WEFT_ASSIGN(const int center, arguments.integer("center", 0));
  return star_graph(n, center);
}

Result<Graph> make_ring(const Arguments& arguments, int n) {
  WEFT_ASSIGN(const int style, arguments.integer("style", 0));
  if (style < 0 || style > 2) {
    return Status(Code::invalid_argument,
                  fmt::format("ring: style={} is none of 0 (both), 1 (previous), 2 (next)", style));
  }
  return ring_graph(n, static_cast<RingStyle>(style));
}

Result<Graph> make_fully_connected(const Arguments&, int n) {
  return fully_connected_graph(n);
}

// A shape that gives its own number of ranks must agree with n. It is asked before the graph is made, which may be a large
// one. Sizes that no graph has are left to the generator.
Status check_ranks(std::string_view name, const std::vector<int>& sizes, int n) {
  std::int64_t ranks = 1;
  for (const int size : sizes) {
    if (size < 1 || ranks * size > kMostRanks) return {};
    ranks *= size;
  }
  if (ranks == n) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} has {} ranks, not n = {}", shown(name), ranks, n));
}

Result<Graph> make_torus(const Arguments& arguments, int n) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 0));
  WEFT_ASSIGN(std::vector<int> dims, arguments.dimensions("dims"));
  if (dims.empty()) dims = {grid_shape(n).rows, grid_shape(n).columns};
  WEFT_RETURN_IF_ERROR(check_ranks(fmt::format("torus:{}", fmt::join(dims, "x")), dims, n));
  return torus_graph(dims);
}

Result<Graph> make_hypercube(const Arguments&, int n) {
  return hypercube_graph(n);
}

// The least number of digits that give n ranks or more.
int digits_for(int n, int base) {
  int digits = 0;
  for (std::int64_t ranks = 1; base > 1 && ranks < n; ranks *= base) ++digits;
  return digits;
}

Result<Graph> make_bcube(const Arguments& arguments, int n) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 0));
  WEFT_ASSIGN(const int base, arguments.integer("a", 2));
  WEFT_ASSIGN(const int digits, arguments.integer("b", digits_for(n, base)));
  constexpr int kMostDigits = 20;  // of base 2; more are left to the generator
  const std::vector<int> sizes(static_cast<std::size_t>(std::clamp(digits, 0, kMostDigits + 1)),
                               base);
  WEFT_RETURN_IF_ERROR(check_ranks(fmt::format("bcube:a={},b={}", base, digits), sizes, n));
  return bcube_graph({.base = base, .digits = digits});
}

Result<Graph> make_tree(const Arguments& arguments, int n) {
  WEFT_ASSIGN(const int children, arguments.integer("k", 2));
  return tree_graph(n, children);
}

Result<Graph> make_random_regular(const Arguments& arguments, int n) {
  WEFT_ASSIGN(const int degree, arguments.integer("d"));
  WEFT_ASSIGN(const std::uint64_t seed, arguments.seed());
  return random_regular_graph(n, {.degree = degree, .seed = seed});
}

Result<Graph> make_erdos_renyi(const Arguments& arguments, int n) {
  WEFT_ASSIGN(const double probability, arguments.number("p"));
  WEFT_ASSIGN(const std::uint64_t seed, arguments.seed());
  return erdos_renyi_graph(n, {.probability = probability, .seed = seed});
}

const std::vector<Kind<Graph>>& graph_kinds() {
  static const std::vector<Kind<Graph>> kinds = {
      {{"exponential", "ExponentialGraph", "base=2", "j -> j + every power of base below n"},
       {"base"},
       make_exponential},
      {{"exponential_two", "ExponentialTwoGraph", "", "exponential with base 2"},
       {},
       make_exponential_two},
      {{"symmetric_exponential", "SymmetricExponentialGraph", "base=4",
        "powers of base in both directions, up to n/2"},
       {"base"},
       make_symmetric_exponential},
      {{"grid", "MeshGrid2DGraph", "shape=ROWSxCOLUMNS", "4-neighbors on a grid, no wrap"},
       {"shape"},
       make_grid},
      {{"star", "StarGraph", "center=0", "the center and every other rank, both ways"},
       {"center"},
       make_star},
      {{"ring", "RingGraph", "style=0", "0: both sides, 1: j -> j-1, 2: j -> j+1"},
       {"style"},
       make_ring},
      {{"fully_connected", "FullyConnectedGraph", "", "every rank to every other"},
       {},
       make_fully_connected},
      {{"torus", "", "dims=AxBx…", "one step both ways in each dimension, with wrap"},
       {"dims"},
       make_torus},
      {{"hypercube", "", "", "ranks that differ in one bit; n a power of two"}, {}, make_hypercube},
      {{"bcube", "", "a=2,b=…", "n = a^b, ranks that differ in one digit base a"},
       {"a", "b"},
       make_bcube},
      {{"tree", "", "k=2", "rank i and its k children, both ways"}, {"k"}, make_tree},
      {{"random_regular", "", "d=…,seed=0", "random, undirected, every rank of degree d"},
       {"d", "seed"},
       make_random_regular},
      {{"erdos_renyi", "", "p=…,seed=0", "random, undirected, each pair with probability p"},
       {"p", "seed"},
       make_erdos_renyi},
  };
  return kinds;
}

Result<Schedule> make_one_peer_exponential(const Arguments&, int n) {
  return one_peer_exponential(n);
}
Result<Schedule> make_two_peer_exponential(const Arguments&, int n) {
  return two_peer_exponential(n);
}
Result<Schedule> make_undirected_one_peer(const Arguments&, int n) {
  return undirected_one_peer(n);
}
Result<Schedule> make_machine_exponential(const Arguments&, int n) {
  return machine_exponential(n);
}

Result<MachineShape> machine_shape(const Arguments& arguments, int n) {
  WEFT_RETURN_IF_ERROR(check_graph_size(n, 0));
  WEFT_ASSIGN(const int local_size, arguments.integer("local"));
  if (local_size < 1 || n % local_size != 0) {
    return Status(Code::invalid_argument,
                  fmt::format("local={} does not divide n = {}", local_size, n));
  }
  return MachineShape{n / local_size, local_size};
}

Result<Schedule> make_inner_outer_ring(const Arguments& arguments, int n) {
  WEFT_ASSIGN(const MachineShape shape, machine_shape(arguments, n));
  return inner_outer_ring(shape);
}

Result<Schedule> make_inner_outer_exponential(const Arguments& arguments, int n) {
  WEFT_ASSIGN(const MachineShape shape, machine_shape(arguments, n));
  return inner_outer_exponential(shape);
}

constexpr NamedKind kOnePeer = {"one_peer", "", "GRAPH",
                                "one out-neighbor of the graph after the other"};

const std::vector<Kind<Schedule>>& schedule_kinds() {
  static const std::vector<Kind<Schedule>> kinds = {
      {{"one_peer_exponential", "", "", "SGP: one hop of 1, 2, 4, … per step"},
       {},
       make_one_peer_exponential},
      {{"two_peer_exponential", "", "", "SGP: two hops of 1, 2, 4, … per step"},
       {},
       make_two_peer_exponential},
      {{"undirected_one_peer", "", "", "pairs of an odd and an even rank; n even"},
       {},
       make_undirected_one_peer},
      {{"machine_exponential", "", "", "one hop of 1, 2, 4, … between n machines"},
       {},
       make_machine_exponential},
      {{"inner_outer_ring", "", "local=…",
        "one local rank goes to the next machine, the others round"},
       {"local"},
       make_inner_outer_ring},
      {{"inner_outer_exponential", "", "local=…",
        "the same with hops of 1, 2, 4, … in and outside"},
       {"local"},
       make_inner_outer_exponential},
  };
  return kinds;
}

template <typename Made>
const Kind<Made>* find_kind(const std::vector<Kind<Made>>& kinds, std::string_view name) {
  const auto found = std::find_if(kinds.begin(), kinds.end(), [name](const Kind<Made>& kind) {
    return !name.empty() && (kind.help.name == name || kind.help.alias == name);
  });
  return found == kinds.end() ? nullptr : &*found;
}

Status unknown(std::string_view what, std::string_view name, const std::vector<NamedKind>& known) {
  std::string names;
  for (const NamedKind& kind : known) {
    names += names.empty() ? "" : ", ";
    names += kind.name;
  }
  return Status(Code::invalid_argument,
                fmt::format("unknown {} '{}'; known are: {}", what, shown(name), names));
}

}  // namespace

std::vector<NamedKind> graph_names() {
  std::vector<NamedKind> names;
  for (const auto& kind : graph_kinds()) names.push_back(kind.help);
  return names;
}

std::vector<NamedKind> schedule_names() {
  std::vector<NamedKind> names = {kOnePeer};
  for (const auto& kind : schedule_kinds()) names.push_back(kind.help);
  return names;
}

Result<Graph> make_graph(std::string_view spec, int n) {
  const auto [name, rest] = split_name(spec);
  const Kind<Graph>* kind = find_kind(graph_kinds(), name);
  if (kind == nullptr) return unknown("graph", name, graph_names());
  std::vector<std::string_view> keys = kind->keys;
  keys.push_back("weights");
  WEFT_ASSIGN(const Arguments arguments, Arguments::parse(name, rest, keys));
  WEFT_ASSIGN(const Graph graph, kind->make(arguments, n));
  const std::optional<std::string> weights = arguments.text("weights");
  if (!weights) return graph;
  WEFT_ASSIGN(const WeightRule rule, weight_rule(*weights));
  WEFT_ASSIGN(const Graph result, reweighted(graph, rule));
  const bool has_arguments = graph.name().find(':') != std::string::npos;
  return result.renamed(
      fmt::format("{}{}weights={}", graph.name(), has_arguments ? ',' : ':', *weights));
}

Result<Schedule> make_schedule(std::string_view spec, int n) {
  const auto [name, rest] = split_name(spec);
  if (name == kOnePeer.name) {
    if (rest.empty())
      return Status(Code::invalid_argument, "one_peer: needs a graph, as in one_peer:exponential");
    WEFT_ASSIGN(const Graph graph, make_graph(rest, n));
    return one_peer(graph);
  }
  const Kind<Schedule>* kind = find_kind(schedule_kinds(), name);
  if (kind == nullptr) return unknown("schedule", name, schedule_names());
  WEFT_ASSIGN(const Arguments arguments, Arguments::parse(name, rest, kind->keys));
  return kind->make(arguments, n);
}

}  // namespace weft
