// algorithms: push-sum, D-PSGD, AD-PSGD and bounded staleness. The raw calls take addresses;
// weft._algorithms has the classes on arrays.
#include "bindings/python/core/algorithms.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <weft/weft.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/context.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/gil.h"

namespace weft::python {
namespace {

using PyPushSum = PyAlgorithm<PushSum>;
using PyDPsgd = PyAlgorithm<DPsgd>;
using PyAdPsgd = PyAlgorithm<AdPsgd>;
using PyStaleness = PyAlgorithm<BoundedStaleness>;

void bind_push_sum(nb::module_& module) {
  nb::class_<PyPushSum> type(module, "PushSum", "Base of weft.PushSum.");
  type.def(
      "__init__",
      [](PyPushSum* self, const PyContext& context, const Schedule& schedule, std::uintptr_t x,
         std::size_t count, int dtype, const std::string& name, std::optional<std::uint64_t> lag,
         std::optional<std::uintptr_t> stream, nb::object array) {
        const PushSumOptions options{name, lag.value_or(kAnyLag), keep(std::move(array)),
                                     stream_of(stream)};
        new (self) PyPushSum(make<PushSum>(context, [=, x = memory(x, count, dtype)](Context& on) {
          return PushSum::create(on, schedule, x, options);
        }));
      },
      nb::arg("context"), nb::arg("schedule"), nb::arg("x"), nb::arg("count"), nb::arg("dtype"),
      nb::arg("name"), nb::arg("lag").none(), nb::arg("stream").none(), nb::arg("array"));
  type.def("begin_step", plain(&PushSum::begin_step), "Sends this step's shares of x.");
  type.def(
      "end_step",
      [](const PyPushSum& self, std::optional<double> timeout) {
        self.run_for(timeout, [](PushSum& it, std::int64_t ns) { return it.end_step(ns); });
      },
      nb::arg("timeout") = nb::none(),
      "Waits as the lag says, and adds to x what has arrived. After TimedOut it may be called "
      "again.");
  type.def("debias_raw", [](const PyPushSum& self, std::uintptr_t z, std::size_t count, int dtype,
                            nb::object kept) {
    check(self.run<Status>([z = memory(z, count, dtype)](PushSum& it) { return it.debias(z); },
                           keep(std::move(kept))));
  });
  type.def(
      "weight",
      [](const PyPushSum& self) {
        return check(self.run<Result<double>>([](PushSum& it) { return it.weight(); }));
      },
      "w, which travels with x.");
  type.def_prop_ro("steps", [](const PyPushSum& self) { return self.open->algorithm->steps(); });
  type.def("settle", plain(&PushSum::settle), "Takes all messages that are under way. Collective.");
  type.def("end", plain(&PushSum::end), "Frees the windows. Collective.");
}

void bind_dpsgd(nb::module_& module) {
  nb::class_<PyDPsgd> type(module, "DPsgd", "Base of weft.DPsgd.");
  type.def(
      "__init__",
      [](PyDPsgd* self, const PyContext& context, const Schedule& schedule) {
        new (self) PyDPsgd(
            make<DPsgd>(context, [schedule](Context& on) { return DPsgd::create(on, schedule); }));
      },
      nb::arg("context"), nb::arg("schedule"));
  type.def("step_raw", [](const PyDPsgd& self, std::uintptr_t x, std::uintptr_t y,
                          std::size_t count, int dtype, nb::object kept) {
    const Output to = memory(y, count, dtype);
    const Input from{reinterpret_cast<const void*>(x), count, to.type};
    check(self.run<Status>([from, to](DPsgd& it) { return it.step(from, to); },
                           keep(std::move(kept))));
  });
  type.def_prop_ro("steps", [](const PyDPsgd& self) { return self.open->algorithm->steps(); });
}

void update(const PyAdPsgd& self, const nb::object& change) {
  const std::shared_ptr<Context> context = self.context();
  update_by(change, [&](const auto& call) { return self.open->algorithm->update(call); });
}

void bind_ad_psgd(nb::module_& module) {
  nb::class_<PyAdPsgd> type(module, "AdPsgd", "Base of weft.AdPsgd.");
  type.def(
      "__init__",
      [](PyAdPsgd* self, const PyContext& context, std::uintptr_t x, std::size_t count, int dtype,
         const std::string& name, std::uint64_t seed, std::optional<std::uintptr_t> stream,
         nb::object array) {
        const AdPsgdOptions options{name, seed, keep(std::move(array)), stream_of(stream)};
        new (self) PyAdPsgd(make<AdPsgd>(context, [=, x = memory(x, count, dtype)](Context& on) {
          return AdPsgd::create(on, x, options);
        }));
      },
      nb::arg("context"), nb::arg("x"), nb::arg("count"), nb::arg("dtype"), nb::arg("name"),
      nb::arg("seed"), nb::arg("stream").none(), nb::arg("array"));
  type.def(
      "average",
      [](const PyAdPsgd& self, std::optional<Rank> peer) -> Rank {
        if (!peer) return check(self.run<Result<Rank>>([](AdPsgd& it) { return it.average(); }));
        check(self.run<Status>([peer = *peer](AdPsgd& it) { return it.average_with(peer); }));
        return *peer;
      },
      nb::arg("peer") = nb::none(),
      "Averages with this out-neighbor, or with a random one. Returns it; -1: there is none.");
  type.def("update", &update, nb::arg("change"),
           nb::sig("def update(self, change: collections.abc.Callable[[], object]) -> None"),
           "Calls change() while nobody else reads or writes the model.");
  type.def("read_raw", [](const PyAdPsgd& self, std::uintptr_t y, std::size_t count, int dtype,
                          nb::object kept) {
    check(self.run<Status>([y = memory(y, count, dtype)](AdPsgd& it) { return it.read(y); },
                           keep(std::move(kept))));
  });
  type.def("end", plain(&AdPsgd::end), "Frees the window. Collective.");
}

void bind_staleness(nb::module_& module) {
  nb::class_<PyStaleness> type(module, "BoundedStaleness", "Base of weft.BoundedStaleness.");
  type.def(
      "__init__",
      [](PyStaleness* self, const PyContext& context, std::uintptr_t x, std::size_t count,
         int dtype, const std::string& name, std::uint64_t bound, nb::object array) {
        const BoundedStalenessOptions options{name, bound, keep(std::move(array))};
        new (self) PyStaleness(
            make<BoundedStaleness>(context, [=, x = memory(x, count, dtype)](Context& on) {
              return BoundedStaleness::create(on, x, options);
            }));
      },
      nb::arg("context"), nb::arg("x"), nb::arg("count"), nb::arg("dtype"), nb::arg("name"),
      nb::arg("bound"), nb::arg("array"));
  type.def("publish", plain(&BoundedStaleness::publish),
           "Makes x this rank's next version, and delivers it.");
  type.def(
      "wait",
      [](const PyStaleness& self, std::optional<double> timeout) {
        self.run_for(timeout, [](BoundedStaleness& it, std::int64_t ns) { return it.wait(ns); });
      },
      nb::arg("timeout") = nb::none(),
      "Waits until no in-neighbor is more than `bound` versions behind. After TimedOut it may be "
      "called again.");
  type.def("average", plain(&BoundedStaleness::average),
           "x := the weighted sum of x and the newest versions of the in-neighbors.");
  type.def_prop_ro("version",
                   [](const PyStaleness& self) { return self.open->algorithm->version(); });
  type.def(
      "delivered",
      [](const PyStaleness& self) {
        return check(self.run<Result<std::vector<std::uint64_t>>>(
            [](BoundedStaleness& it) { return it.delivered(); }));
      },
      "The newest version of each in-neighbor, ascending by rank, that was delivered here.");
  type.def("end", plain(&BoundedStaleness::end), "Frees the windows. Collective.");
}

}  // namespace

void bind_algorithms(nb::module_& module) {
  bind_push_sum(module);
  bind_dpsgd(module);
  bind_ad_psgd(module);
  bind_staleness(module);
}

}  // namespace weft::python
