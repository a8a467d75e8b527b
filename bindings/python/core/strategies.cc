// strategies: ways to train one model together, by name. The raw calls take addresses;
// weft._strategies has the class on arrays.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <weft/macros.h>
#include <weft/weft.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "bindings/python/core/algorithms.h"
#include "bindings/python/core/bindings.h"
#include "bindings/python/core/context.h"
#include "bindings/python/core/errors.h"

namespace weft::python {
namespace {

// A strategy, and what it needs until it has ended.
struct OpenStrategy {
  OpenStrategy(Strategy made, SharedKept array, std::weak_ptr<Opened> on)
      : model(std::move(array)), opened(std::move(on)), strategy(std::move(made)) {}

  const SharedKept model;
  const std::weak_ptr<Opened> opened;
  std::mutex mutex;  // a step that a signal has interrupted goes on, and the next call waits for it
  Strategy strategy;
};
using SharedStrategy = std::shared_ptr<OpenStrategy>;
using PyStrategy = PyAlgorithm<SharedStrategy>;

template <typename T, typename Call>
T run(const PyStrategy& self, Call call, SharedKept kept = nullptr) {
  return self.run<T>(
      [call = std::move(call)](const SharedStrategy& it) {
        const std::lock_guard lock(it->mutex);
        return call(*it);
      },
      std::move(kept));
}

PyStrategy create(const PyContext& context, const std::string& name, const Output& model,
                  const StrategyOptions& options, nb::object array) {
  return make<SharedStrategy>(
      context, nb::none(),
      [=, opened = context->context().opened(),
       kept = keep(std::move(array))](Context& on) -> Result<SharedStrategy> {
        WEFT_ASSIGN(Strategy made, Strategy::create(on, name, model, options));
        auto open = std::make_shared<OpenStrategy>(std::move(made), kept, opened);
        opened->add_strategy(open);
        return open;
      });
}

nb::dict counts(const PyStrategy& self) {
  const auto now =
      run<StrategyCounts>(self, [](const OpenStrategy& it) { return it.strategy.counts(); });
  nb::dict made;
  made["steps"] = now.steps;
  made["bytes"] = now.bytes;
  made["dropped"] = now.dropped;
  return made;
}

Status end(OpenStrategy& open) {
  WEFT_RETURN_IF_ERROR(open.strategy.end());
  if (const auto opened = open.opened.lock()) opened->remove_strategy(&open);
  return {};
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
         const std::string& window_name, nb::object array) {
        const StrategyOptions options{window_name,    rate,     momentum,    section,
                                      peers,          seed,     compression, outer_rate,
                                      outer_momentum, colayers, staleness,   proportion};
        new (self)
            PyStrategy(create(context, name, memory(x, count, dtype), options, std::move(array)));
      },
      nb::arg("context"), nb::arg("name"), nb::arg("x"), nb::arg("count"), nb::arg("dtype"),
      nb::arg("rate"), nb::arg("momentum").none(), nb::arg("section").none(),
      nb::arg("peers").none(), nb::arg("seed").none(), nb::arg("compression"),
      nb::arg("outer_rate").none(), nb::arg("outer_momentum").none(), nb::arg("colayers").none(),
      nb::arg("staleness").none(), nb::arg("proportion").none(), nb::arg("window_name"),
      nb::arg("array"));
  type.def(
      "begin",
      [](const PyStrategy& self) {
        check(run<Status>(self, [](OpenStrategy& it) { return it.strategy.begin(); }));
      },
      "Begins an iteration, before its gradient is computed. If it is not called, step() calls "
      "it.");
  type.def("step_raw", [](const PyStrategy& self, std::uintptr_t gradient, std::size_t count,
                          int dtype, nb::object kept) {
    const Input from{reinterpret_cast<const void*>(gradient), count, type_of(dtype)};
    check(run<Status>(
        self, [from](OpenStrategy& it) { return it.strategy.step(from); }, keep(std::move(kept))));
  });
  type.def(
      "set_rate",
      [](const PyStrategy& self, double rate) {
        check(run<Status>(self, [rate](OpenStrategy& it) { return it.strategy.set_rate(rate); }));
      },
      nb::arg("rate"), "Sets the rate of the steps from here on. All ranks give the same.");
  type.def_prop_ro(
      "name",
      [](const PyStrategy& self) { return std::string((*self.open->algorithm)->strategy.name()); },
      "The strategy's name.");
  type.def_prop_ro(
      "runs_free",
      [](const PyStrategy& self) { return (*self.open->algorithm)->strategy.runs_free(); },
      "Whether ranks may take different numbers of steps.");
  type.def("counts", &counts, nb::sig("def counts(self) -> dict[str, int]"),
           "The steps, the bytes that this rank has sent, and the gradients that are in no model.");
  type.def(
      "end", [](const PyStrategy& self) { check(run<Status>(self, &end)); },
      "Takes what is under way, and frees what the strategy has made. The model stays. "
      "Collective.");
}

}  // namespace weft::python
