// graph: graphs, the views of single ranks, generators and properties.
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <weft/weft.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"

namespace weft::python {
namespace nb = nanobind;
using namespace nb::literals;

namespace {

Rank checked_rank(const Graph& graph, Rank rank) {
  if (rank < 0 || rank >= graph.size()) {
    raise_invalid("rank " + std::to_string(rank) + " is outside 0..." +
                  std::to_string(graph.size() - 1) + " of graph " + graph.name());
  }
  return rank;
}

std::vector<Peer> copied(std::span<const Peer> peers) {
  return {peers.begin(), peers.end()};
}

// Equal values have equal hashes.
template <typename... Parts>
Py_hash_t hash_of(const Parts&... parts) {
  return nb::hash(nb::make_tuple(parts...));
}

std::string describe_all(const Graph& graph) {
  std::string text;
  for (const std::string& line : describe(graph)) text += line + "\n";
  return text;
}

void bind_parts(nb::module_& module) {
  nb::class_<Edge>(module, "Edge", "The edge source -> target; the target applies `weight`.")
      .def(nb::init<Rank, Rank, double>(), "source"_a, "target"_a, "weight"_a = 1.0)
      .def_ro("source", &Edge::from)
      .def_ro("target", &Edge::to)
      .def_ro("weight", &Edge::weight)
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Edge& self) { return hash_of(self.from, self.to, self.weight); })
      .def("__repr__", [](const Edge& self) {
        return "Edge(" + std::to_string(self.from) + ", " + std::to_string(self.to) + ", " +
               nb::cast<std::string>(nb::repr(nb::float_(self.weight))) + ")";
      });
  nb::class_<Peer>(module, "Peer", "The other end of an edge, and the edge's weight.")
      .def_ro("rank", &Peer::rank)
      .def_ro("weight", &Peer::weight)
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Peer& self) { return hash_of(self.rank, self.weight); })
      .def("__repr__", [](const Peer& self) {
        return "Peer(" + std::to_string(self.rank) + ", " +
               nb::cast<std::string>(nb::repr(nb::float_(self.weight))) + ")";
      });
  nb::class_<LocalView>(module, "LocalView",
                        "What one rank knows of a graph, or of one step of a schedule.")
      .def_ro("rank", &LocalView::rank)
      .def_ro("size", &LocalView::size)
      .def_prop_ro(
          "in_peers", [](const LocalView& self) { return self.in; },
          "Ranks that send to this one, ascending, with the weight that this rank applies.")
      .def_prop_ro(
          "out_peers", [](const LocalView& self) { return self.out; },
          "Ranks to which this one sends, ascending, with the weight that they apply.")
      .def_ro("self_weight", &LocalView::self_weight)
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__",
           [](const LocalView& self) { return hash_of(self.rank, self.size, self.self_weight); });
}

Graph from_edges(int n, const std::vector<std::tuple<Rank, Rank, double>>& edges,
                 const std::vector<double>& self_weights, std::string name) {
  std::vector<Edge> list;
  list.reserve(edges.size());
  for (const auto& [from, to, weight] : edges) list.push_back({from, to, weight});
  return check(Graph::from_edges(n, list, self_weights, std::move(name)));
}

void bind_graph_class(nb::module_& module) {
  nb::class_<Graph> type(module, "Graph",
                         "A weighted directed graph over the ranks 0 ... size-1. Immutable.");
  type.def_static("from_edges", &from_edges, "n"_a, "edges"_a, "self_weights"_a, "name"_a = "given",
                  "The graph with these edges (source, target, weight). An edge of weight 0 is "
                  "dropped. self_weights[r] is w_rr.");
  type.def_static(
      "from_matrix",
      [](int n, const std::vector<double>& weights, std::string name) {
        return check(Graph::from_matrix(n, weights, std::move(name)));
      },
      "n"_a, "weights"_a, "name"_a = "given",
      "The graph of a dense W, row-major: weights[i * n + j] is w_ij, which i applies to what j "
      "sent.");
  type.def_prop_ro("size", &Graph::size);
  type.def_prop_ro("edge_count", &Graph::edge_count);
  type.def_prop_ro("name", [](const Graph& self) { return self.name(); });
  type.def("renamed", &Graph::renamed, "name"_a);
  type.def(
      "in_edges",
      [](const Graph& self, Rank rank) { return copied(self.in_edges(checked_rank(self, rank))); },
      "rank"_a, "The ranks that send to `rank`, ascending.");
  type.def(
      "out_edges",
      [](const Graph& self, Rank rank) { return copied(self.out_edges(checked_rank(self, rank))); },
      "rank"_a, "The ranks to which `rank` sends, ascending.");
  type.def(
      "self_weight",
      [](const Graph& self, Rank rank) { return self.self_weight(checked_rank(self, rank)); },
      "rank"_a);
  type.def(
      "weight",
      [](const Graph& self, Rank to, Rank from) {
        return self.weight(checked_rank(self, to), checked_rank(self, from));
      },
      "target"_a, "source"_a,
      "The weight that `target` applies to what `source` sent; 0: no edge.");
  type.def("edges", &Graph::edges, "Every edge, ascending by target, then by source.");
  type.def_prop_ro("self_weights", [](const Graph& self) { return self.self_weights(); });
  type.def(
      "local_view",
      [](const Graph& self, Rank rank) { return self.local_view(checked_rank(self, rank)); },
      "rank"_a);
  type.def(
      "__eq__",
      [](const Graph& self, nb::handle other) {
        return nb::isinstance<Graph>(other) && self == nb::cast<const Graph&>(other);
      },
      nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  type.def("__hash__", [](const Graph& self) { return hash_of(self.size(), self.edge_count()); });
  type.def("__repr__", [](const Graph& self) {
    return "<weft.Graph " + self.name() + ": " + std::to_string(self.size()) + " ranks, " +
           std::to_string(self.edge_count()) + " edges>";
  });
}

void bind_generators(nb::module_& module) {
  module.def(
      "exponential_graph", [](int n, int base) { return check(exponential_graph(n, base)); }, "n"_a,
      "base"_a = 2, "j -> j + d mod n for every power d of base below n.");
  module.def(
      "symmetric_exponential_graph",
      [](int n, int base) { return check(symmetric_exponential_graph(n, base)); }, "n"_a,
      "base"_a = 4);
  module.def(
      "grid_graph",
      [](int n, std::optional<std::pair<int, int>> shape) {
        if (!shape) return check(grid_graph(n));
        return check(grid_graph(n, GridShape{shape->first, shape->second}));
      },
      "n"_a, "shape"_a = nb::none(), "Up to four neighbors on a grid of (rows, columns).");
  module.def(
      "star_graph", [](int n, Rank center) { return check(star_graph(n, center)); }, "n"_a,
      "center"_a = 0);
  module.def(
      "ring_graph",
      [](int n, int style) {
        if (style < 0 || style > 2) {
          raise_invalid("ring: style " + std::to_string(style) +
                        " does not exist; 0: both sides, 1: to the previous, 2: to the next rank");
        }
        return check(ring_graph(n, static_cast<RingStyle>(style)));
      },
      "n"_a, "style"_a = 0, "Style 0: both sides, 1: j -> j-1, 2: j -> j+1.");
  module.def(
      "fully_connected_graph", [](int n) { return check(fully_connected_graph(n)); }, "n"_a);
  module.def(
      "torus_graph", [](const std::vector<int>& dims) { return check(torus_graph(dims)); },
      "dims"_a);
  module.def(
      "hypercube_graph", [](int n) { return check(hypercube_graph(n)); }, "n"_a);
  module.def(
      "bcube_graph",
      [](int base, int digits) {
        return check(bcube_graph({base, digits}));
      },
      "base"_a, "digits"_a);
  module.def(
      "tree_graph", [](int n, int children) { return check(tree_graph(n, children)); }, "n"_a,
      "children"_a = 2);
  module.def(
      "random_regular_graph",
      [](int n, int degree, std::uint64_t seed) {
        return check(random_regular_graph(n, {degree, seed}));
      },
      "n"_a, "degree"_a = 3, "seed"_a = 0);
  module.def(
      "erdos_renyi_graph",
      [](int n, double probability, std::uint64_t seed) {
        return check(erdos_renyi_graph(n, {probability, seed}));
      },
      "n"_a, "probability"_a = 0.5, "seed"_a = 0);
  module.def(
      "make_graph", [](std::string_view spec, int n) { return check(make_graph(spec, n)); },
      "spec"_a, "n"_a,
      "A graph by its name: \"exponential:base=4\", \"ring:style=1\", \"grid:4x4\".");
}

void bind_properties(nb::module_& module) {
  module.def(
      "reweighted",
      [](const Graph& graph, std::string_view rule) {
        return check(reweighted(graph, check(weight_rule(rule))));
      },
      "graph"_a, "rule"_a,
      "The same edges with the weights of a rule: \"uniform\", \"metropolis_hastings\" or "
      "\"push_uniform\".");
  module.def(
      "without",
      [](const Graph& graph, const std::vector<Rank>& gone) { return check(without(graph, gone)); },
      "graph"_a, "gone"_a,
      "The graph without the edges of some ranks: those that sent to them send to those that they "
      "sent to.");
  module.def(
      "among",
      [](const Graph& graph, const std::vector<Rank>& ranks) { return check(among(graph, ranks)); },
      "graph"_a, "ranks"_a,
      "The edges and weights between these ranks alone, which are numbered anew in this order.");
  module.def("is_regular", &is_regular, "graph"_a);
  module.def("is_undirected", &is_undirected, "graph"_a);
  module.def("is_strongly_connected", &is_strongly_connected, "graph"_a);
  module.def("is_row_stochastic", &is_row_stochastic, "graph"_a);
  module.def("is_column_stochastic", &is_column_stochastic, "graph"_a);
  module.def("is_doubly_stochastic", &is_doubly_stochastic, "graph"_a);
  module.def("max_in_degree", &max_in_degree, "graph"_a);
  module.def("max_out_degree", &max_out_degree, "graph"_a);
  module.def(
      "sigma2", [](const Graph& graph) { return sigma2(graph); }, "graph"_a);
  module.def("describe", &describe_all, "graph"_a, "Size, properties and edges, as text.");
}

}  // namespace

void bind_graph(nb::module_& module) {
  bind_parts(module);
  bind_graph_class(module);
  bind_generators(module);
  bind_properties(module);
}

}  // namespace weft::python
