// gradient_exchange: gradients that travel in pieces, and the bundling of layers. The raw calls take addresses;
// weft._exchanges has the class on arrays.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <weft/weft.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/context.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/serial.h"

namespace weft::python {
namespace {

using PyExchange = PySerial<GradientExchange>;

// number, is_dropped, pulled_from, contributors
nb::tuple end_iteration(const PyExchange& self, std::uintptr_t mean, std::size_t count, int dtype,
                        nb::object kept) {
  const EndedIteration ended = check(run_serial<Result<EndedIteration>>(
      self,
      [mean = memory(mean, count, dtype)](GradientExchange& it) { return it.end_iteration(mean); },
      keep(std::move(kept))));
  const nb::object from = ended.pulled_from == kNoRank ? nb::none() : nb::cast(ended.pulled_from);
  return nb::make_tuple(ended.number, ended.is_dropped, from, ended.contributors);
}

void update(const PyExchange& self, const nb::object& change) {
  const std::shared_ptr<Context> context = self.context();
  Serial<GradientExchange>& it = **self.open->algorithm;
  update_by(change, [&](const auto& call) {
    const std::lock_guard lock(it.mutex);
    return it.algorithm.update(call);
  });
}

nb::dict counts(const PyExchange& self) {
  const auto now = run_serial<GradientExchangeCounts>(
      self, [](const GradientExchange& it) { return it.counts(); });
  nb::dict made;
  made["iterations"] = now.iterations;
  made["dropped"] = now.dropped;
  made["pulls"] = now.pulls;
  made["bytes"] = now.bytes;
  return made;
}

std::vector<int> bundle(const std::vector<std::size_t>& counts, int colayers,
                        const std::optional<std::vector<int>>& kinds) {
  std::vector<LayerSize> layers(counts.size());
  if (kinds && kinds->size() != counts.size()) {
    raise(Status(Code::invalid_argument,
                 "bundle_layers: there are kinds of " + std::to_string(kinds->size()) +
                     " layers, and counts of " + std::to_string(counts.size())));
  }
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    layers[layer] = {counts[layer], kinds ? (*kinds)[layer] : 0};
  return check(bundle_layers(layers, colayers));
}

void bind_facts(nb::class_<PyExchange>& type) {
  type.def_prop_ro(
      "iteration",
      [](const PyExchange& self) {
        return run_serial<std::int64_t>(self,
                                        [](const GradientExchange& it) { return it.iteration(); });
      },
      "The iteration that has begun last; -1: none. One that follows a pull has the number of the "
      "fastest.");
  type.def(
      "staleness",
      [](const PyExchange& self) {
        return check(run_serial<Result<std::int64_t>>(
            self, [](GradientExchange& it) { return it.staleness(); }));
      },
      "How many iterations the fastest rank is ahead, as far as is known here.");
  type.def(
      "index",
      [](const PyExchange& self) {
        return check(run_serial<Result<std::vector<std::uint64_t>>>(
            self, [](GradientExchange& it) { return it.index(); }));
      },
      "What is known here of all ranks: their iterations, and which pieces are out. Equal on all "
      "ranks when what they have told has arrived.");
  type.def("counts", &counts, nb::sig("def counts(self) -> dict[str, int]"),
           "Iterations, those whose gradients were dropped, pulls of the model of the fastest, and "
           "the bytes of pieces and pulls.");
}

}  // namespace

void bind_gradient_exchange(nb::module_& module) {
  module.def("bundle_layers", &bundle, nb::arg("counts"), nb::arg("colayers"),
             nb::arg("kinds") = nb::none(),
             "The colayer of each layer (Canary). counts: the elements of each, in the order in "
             "which backward reaches them. kinds: what each is, as a number; if there are enough "
             "colayers, layers of different kinds share none.");
  nb::class_<PyExchange> type(module, "GradientExchange", "Base of weft.GradientExchange.");
  type.def(
      "__init__",
      [](PyExchange* self, const PyContext& context, std::uintptr_t x, std::size_t count, int dtype,
         const std::vector<std::size_t>& colayers, const std::string& name, const std::string& rule,
         int staleness, std::optional<int> proportion, std::optional<double> rate,
         const std::string& topology, Compression compression, std::optional<std::uintptr_t> stream,
         nb::object array) {
        const GradientExchangeOptions options{
            name, check(exchange_rule(rule)),         staleness,   proportion,
            rate, check(exchange_topology(topology)), compression, stream_of(stream)};
        new (self) PyExchange(make_serial<GradientExchange>(
            context, keep(std::move(array)), [=, x = memory(x, count, dtype)](Context& on) {
              return GradientExchange::create(on, x, colayers, options);
            }));
      },
      nb::arg("context"), nb::arg("x"), nb::arg("count"), nb::arg("dtype"), nb::arg("colayers"),
      nb::arg("name"), nb::arg("rule"), nb::arg("staleness"), nb::arg("proportion").none(),
      nb::arg("rate").none(), nb::arg("topology"), nb::arg("compression"), nb::arg("stream").none(),
      nb::arg("array"));
  type.def("begin", plain_serial(&GradientExchange::begin),
           "Begins an iteration, before its gradients are computed.");
  type.def("push_raw", [](const PyExchange& self, int colayer, std::uintptr_t gradient,
                          std::size_t count, int dtype, nb::object kept) {
    const Input from{reinterpret_cast<const void*>(gradient), count, type_of(dtype)};
    check(run_serial<Status>(
        self, [=](GradientExchange& it) { return it.push(colayer, from); }, keep(std::move(kept))));
  });
  type.def("end_iteration_raw", &end_iteration,
           nb::sig("def end_iteration_raw(self, arg0: int, arg1: int, arg2: int, arg3: object, /) "
                   "-> tuple[int, bool, int | None, list[int]]"));
  type.def("update", &update, nb::arg("change"),
           nb::sig("def update(self, change: collections.abc.Callable[[], object]) -> None"),
           "Calls change() while nobody reads the model.");
  bind_facts(type);
  type.def("end", plain_serial(&GradientExchange::end), "Frees the windows. Collective.");
}

}  // namespace weft::python
