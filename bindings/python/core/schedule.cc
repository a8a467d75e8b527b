// schedule: graphs that change at every step.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <weft/weft.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"

namespace weft::python {
namespace nb = nanobind;
using namespace nb::literals;

namespace {

// The schedule that goes round the graphs, one a step.
Schedule from_graphs(const std::vector<Graph>& graphs, std::string name) {
  if (graphs.empty()) raise_invalid("a schedule needs at least one graph");
  for (const Graph& each : graphs) {
    if (each.size() != graphs.front().size()) {
      raise_invalid("the graphs of a schedule must have the same size: " + graphs.front().name() +
                    " has " + std::to_string(graphs.front().size()) + " ranks, " + each.name() +
                    " has " + std::to_string(each.size()));
    }
  }
  const auto shared = std::make_shared<const std::vector<Graph>>(graphs);
  return Schedule({.name = std::move(name),
                   .size = graphs.front().size(),
                   .period = graphs.size(),
                   .cover = graphs.size()},
                  [shared](std::uint64_t step, Rank rank) {
                    return (*shared)[step % shared->size()].local_view(rank);
                  });
}

LocalView view_of(const Schedule& self, std::uint64_t step, Rank rank) {
  if (rank < 0 || rank >= self.size()) {
    raise_invalid("rank " + std::to_string(rank) + " is outside 0..." +
                  std::to_string(self.size() - 1) + " of schedule " + self.name());
  }
  return self.local_view(step, rank);
}

}  // namespace

void bind_schedule(nb::module_& module) {
  nb::class_<Schedule>(module, "Schedule",
                       "A graph that changes at every step. Each rank computes its own view alone.")
      .def_static("from_graphs", &from_graphs, "graphs"_a, "name"_a = "given",
                  "Step k has graph k mod len(graphs).")
      .def_prop_ro("name", [](const Schedule& self) { return self.name(); })
      .def_prop_ro("size", &Schedule::size)
      .def_prop_ro("period", &Schedule::period, "The views repeat after this many steps.")
      .def_prop_ro("cover", &Schedule::cover, "Every edge occurs within this many steps.")
      .def("local_view", &view_of, "step"_a, "rank"_a)
      .def(
          "step_graph",
          [](const Schedule& self, std::uint64_t step) { return check(step_graph(self, step)); },
          "step"_a, "The views of all ranks at one step, as one graph.")
      .def(
          "union_graph", [](const Schedule& self) { return check(union_graph(self)); },
          "Every edge that occurs in a period, with uniform weights.")
      .def("__repr__", [](const Schedule& self) {
        return "<weft.Schedule " + self.name() + ": " + std::to_string(self.size()) +
               " ranks, period " + std::to_string(self.period()) + ">";
      });
  module.def("one_peer", &one_peer, "graph"_a,
             "At step k each rank sends to its out-neighbor number k, counted clockwise.");
  module.def(
      "one_peer_exponential", [](int n) { return check(one_peer_exponential(n)); }, "n"_a);
  module.def(
      "two_peer_exponential", [](int n) { return check(two_peer_exponential(n)); }, "n"_a);
  module.def(
      "undirected_one_peer", [](int n) { return check(undirected_one_peer(n)); }, "n"_a);
  module.def(
      "machine_exponential", [](int machines) { return check(machine_exponential(machines)); },
      "machines"_a);
  module.def(
      "inner_outer_ring",
      [](int machines, int local_size) {
        return check(inner_outer_ring({machines, local_size}));
      },
      "machines"_a, "local_size"_a);
  module.def(
      "inner_outer_exponential",
      [](int machines, int local_size) {
        return check(inner_outer_exponential({machines, local_size}));
      },
      "machines"_a, "local_size"_a);
  module.def(
      "make_schedule", [](std::string_view spec, int n) { return check(make_schedule(spec, n)); },
      "spec"_a, "n"_a,
      "A schedule by its name: \"one_peer_exponential\", \"one_peer:ring:style=1\".");
}

}  // namespace weft::python
