// module: weft._core, the C++ API of Weft for Python. The package's Python modules build on it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <weft/weft.h>

#include <string>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/keep.h"
#include "bindings/python/core/session.h"
#include "bindings/python/core/waiting.h"

// Not what Python calls: PyInit__core below does.
NB_MODULE(core, module) {
  namespace nb = nanobind;
  using namespace weft::python;
  nb::set_leak_warnings(false);  // a library prints nothing
  module.doc() = "The C++ API of Weft.";
  load_errors();
  remember_main_thread();
  bind_types(module);
  bind_config(module);
  bind_store(module);
  bind_arrays(module);
  bind_memory(module);
  bind_graph(module);
  bind_schedule(module);
  bind_request(module);
  bind_handle(module);
  bind_prepared(module);
  bind_window(module);
  bind_named(module);
  bind_context(module);
  bind_algorithms(module);
  bind_partial_allreduce(module);
  bind_gradient_exchange(module);
  bind_strategies(module);
  module.def(
      "version", [] { return std::string(weft::version()); }, "The version of Weft.");
  module.def(
      "close_all",
      [] {
        close_all_sessions();
        set_exiting();
      },
      "Closes every context. The package calls it when the interpreter exits.");
}

// Exception classes, the register of open contexts and nanobind's types are of the process. A second
// interpreter would put its own in their place.
extern "C" NB_EXPORT PyObject* PyInit__core() {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) return PyInit_core();
  PyErr_SetString(PyExc_ImportError,
                  "weft works in the main interpreter alone, and this is a subinterpreter");
  return nullptr;
}
