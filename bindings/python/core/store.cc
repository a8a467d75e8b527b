// store: how the ranks of a job find each other. Python passes stores on; it does not call them.
#include "bindings/python/core/store.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>
#include <weft/weft.h>

#include <memory>
#include <vector>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/waiting.h"

namespace weft::python {
namespace {

PyStore open(Config& config) {
  using Opened = Result<std::shared_ptr<Store>>;
  auto copy = std::make_shared<Config>(config);  // the wait may be left while the call goes on
  PyStore opened{check(interruptible<Opened>([copy] { return open_store(*copy); }))};
  config = *copy;
  return opened;
}

std::vector<PyStore> make_local(int n) {
  std::vector<PyStore> stores;
  for (std::shared_ptr<Store>& each : check(make_local_stores(n))) stores.push_back({each});
  return stores;
}

}  // namespace

void bind_store(nb::module_& module) {
  nb::class_<PyStore>(module, "Store", "One rank's connection to the job's common table.")
      .def_prop_ro("rank", [](const PyStore& self) { return self.store->rank(); })
      .def_prop_ro("size", [](const PyStore& self) { return self.store->size(); });
  module.def("open_store", &open, nb::arg("config"),
             "Opens the store of the launcher that the configuration names. Values that only the "
             "launcher knows are written into the configuration.");
  module.def("make_local_stores", &make_local, nb::arg("n"),
             "n stores that share one table, for ranks that are threads of this process. Element r "
             "is for rank r.");
}

}  // namespace weft::python
