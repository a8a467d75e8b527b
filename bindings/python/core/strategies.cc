// strategies: ways to train one model together, by name. The raw calls take addresses;
// weft._strategies has the class on arrays.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <weft/weft.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/context.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/serial.h"

namespace weft::python {
namespace {

using PyStrategy = PySerial<Strategy>;

nb::dict counts(const PyStrategy& self) {
  const auto now = run_serial<StrategyCounts>(self, [](const Strategy& it) { return it.counts(); });
  nb::dict made;
  made["steps"] = now.steps;
  made["bytes"] = now.bytes;
  made["dropped"] = now.dropped;
  return made;
}

}  // namespace

void bind_strategies(nb::module_& module) {
  module.def(
      "strategy_names", [] { return strategy_names(); }, "The names of all strategies.");
  nb::class_<PyStrategy> type(module, "Strategy", "Base of weft.Strategy.");
  type.def(
      "__init__",
      [](PyStrategy* self, const PyContext& context, const std::string& name, std::uintptr_t x,
         std::size_t count, int dtype, double rate, std::optional<double> momentum,
         std::optional<int> section, std::optional<int> peers, std::optional<std::uint64_t> seed,
         Compression compression, std::optional<double> outer_rate,
         std::optional<double> outer_momentum, std::optional<int> colayers,
         std::optional<int> staleness, std::optional<int> proportion,
         const std::optional<std::string>& topology, const std::string& window_name,
         std::optional<std::uintptr_t> stream, nb::object array) {
        const SharedKept owner = keep(std::move(array));
        std::optional<ExchangeTopology> shape;
        if (topology) shape = check(exchange_topology(*topology));
        const StrategyOptions options{window_name,    rate,     momentum,         section,
                                      peers,          seed,     compression,      outer_rate,
                                      outer_momentum, colayers, staleness,        proportion,
                                      shape,          owner,    stream_of(stream)};
        new (self) PyStrategy(
            make_serial<Strategy>(context, owner, [=, x = memory(x, count, dtype)](Context& on) {
              return Strategy::create(on, name, x, options);
            }));
      },
      nb::arg("context"), nb::arg("name"), nb::arg("x"), nb::arg("count"), nb::arg("dtype"),
      nb::arg("rate"), nb::arg("momentum").none(), nb::arg("section").none(),
      nb::arg("peers").none(), nb::arg("seed").none(), nb::arg("compression"),
      nb::arg("outer_rate").none(), nb::arg("outer_momentum").none(), nb::arg("colayers").none(),
      nb::arg("staleness").none(), nb::arg("proportion").none(), nb::arg("topology").none(),
      nb::arg("window_name"), nb::arg("stream").none(), nb::arg("array"));
  type.def(
      "begin", plain_serial(&Strategy::begin),
      "Begins an iteration, before its gradient is computed. If it is not called, step() calls "
      "it.");
  type.def("step_raw", [](const PyStrategy& self, std::uintptr_t gradient, std::size_t count,
                          int dtype, nb::object kept) {
    const Input from{reinterpret_cast<const void*>(gradient), count, type_of(dtype)};
    check(run_serial<Status>(
        self, [from](Strategy& it) { return it.step(from); }, keep(std::move(kept))));
  });
  type.def(
      "set_rate",
      [](const PyStrategy& self, double rate) {
        check(run_serial<Status>(self, [rate](Strategy& it) { return it.set_rate(rate); }));
      },
      nb::arg("rate"), "Sets the rate of the steps from here on. All ranks give the same.");
  type.def_prop_ro(
      "name",
      [](const PyStrategy& self) { return std::string((*self.open->algorithm)->algorithm.name()); },
      "The strategy's name.");
  type.def_prop_ro(
      "runs_free",
      [](const PyStrategy& self) { return (*self.open->algorithm)->algorithm.runs_free(); },
      "Whether ranks may take different numbers of steps.");
  type.def("counts", &counts, nb::sig("def counts(self) -> dict[str, int]"),
           "The steps, the bytes that this rank has sent, and the gradients that are in no model.");
  type.def("end", plain_serial(&Strategy::end),
           "Takes what is under way, and frees what the strategy has made. The model stays. "
           "Collective.");
}

}  // namespace weft::python
