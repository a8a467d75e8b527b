// prepared: running, starting, waiting.
#include "bindings/python/core/prepared.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/unique_ptr.h>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/gil.h"
#include "bindings/python/core/waiting.h"

namespace weft::python {

nb::object PyPrepared::run() {
  Result<std::optional<Handle>> ran = [&] {
    const GilReleased released;
    return prepared_.run_for(std::chrono::nanoseconds(kSlice).count());
  }();
  if (std::optional<Handle> rest = check(std::move(ran))) {
    last_ = *std::move(rest);  // if a signal ends the wait, the run goes on
    (void)Operation(last_, kept_, has_no_thread_).wait(std::nullopt);
  }
  return result_;
}

std::unique_ptr<Operation> PyPrepared::start() {
  Result<Handle> started = [&] {
    const GilReleased released;
    return prepared_.start();
  }();
  last_ = check(std::move(started));
  auto operation = std::make_unique<Operation>(last_, kept_, has_no_thread_);
  operation->set_result(result_);
  return operation;
}

nb::object PyPrepared::wait(std::optional<double> timeout_s) {
  if (Handle last = last_; !last.is_empty()) check(wait_for(last, timeout_s));
  return result_;
}

void bind_prepared(nb::module_& module) {
  nb::class_<PyPrepared>(
      module, "Prepared",
      "An operation that is called again and again with the same arrays, which it "
      "keeps alive. Context.prepare() and Window.prepare() make one.")
      .def("run", &PyPrepared::run, nb::sig("def run(self) -> typing.Any"),
           "Runs the operation to its end, and returns the output array. InvalidArgument while a "
           "run that was started is under way.")
      .def("start", &PyPrepared::start, "Starts a run, whose handle can be awaited.")
      .def("wait", &PyPrepared::wait, nb::arg("timeout") = nb::none(),
           nb::sig("def wait(self, timeout: float | None = None) -> typing.Any"),
           "Waits for the end of the run that was started last, as Handle.wait() does.")
      .def_prop_rw(
          "result", [](const PyPrepared& self) { return self.result(); },
          [](PyPrepared& self, nb::object result) { self.set_result(std::move(result)); },
          nb::for_setter(nb::arg("value").none()),
          nb::for_setter(nb::sig("def result(self, value: typing.Any, /) -> None")),
          nb::for_getter(nb::sig("def result(self, /) -> typing.Any")), "The output array.");
}

}  // namespace weft::python
