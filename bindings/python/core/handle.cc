// handle: waiting, callbacks, and what happens to the memory of operations that nobody waits for.
#include "bindings/python/core/handle.h"

#include <nanobind/stl/optional.h>

#include <utility>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/gil.h"
#include "bindings/python/core/waiting.h"

namespace weft::python {
namespace {

// Whether this thread runs a callback. Other callbacks run when it has returned.
thread_local bool is_in_callback = false;

class InCallback {
 public:
  InCallback() : before_(std::exchange(is_in_callback, true)) {}
  ~InCallback() { is_in_callback = before_; }
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;

 private:
  const bool before_;
};

// Runs a Python callback on the completion thread. Nothing it raises can reach a caller, so it goes
// to sys.unraisablehook.
void run_callback(const SharedKept& call, const Status& status) {
  if (is_exiting()) return;
  const GilAcquired acquired;
  const InCallback inside;
  try {
    (void)call->object()(status.ok() ? nb::none() : error_of(status));
  } catch (nb::python_error& raised) {
    raised.discard_as_unraisable(call->object());
  }
}

}  // namespace

Operation::~Operation() {
  if (kept_ == nullptr || handle_.test()) return;
  // The callback owns the memory. It is destroyed when the operation is done, or when the context
  // is closed.
  SharedKept kept = std::move(kept_);
  if (!handle_.then([kept](const Status&) {}).ok() && !handle_.test()) {
    (void)new SharedKept(std::move(kept));  // never freed, because a transfer may still use it
  }
}

// Ranks that are threads of one interpreter may have to agree here on who is left (OnDeath::skip).
bool Operation::test() {
  const bool done = [this] {
    const GilReleased released;
    return handle_.test();
  }();
  if (done) kept_ = nullptr;
  return done;
}

nb::object Operation::wait(std::optional<double> timeout_s) {
  const Status status = wait_for(handle_, timeout_s);
  if (handle_.test()) kept_ = nullptr;
  check(status);
  return result_;
}

void Operation::then(nb::object call) {
  if (!nb::cast<bool>(nb::module_::import_("builtins").attr("callable")(call))) {
    PyErr_Format(PyExc_TypeError, "then: %R is not callable", call.ptr());
    throw nb::python_error();
  }
  const SharedKept kept = keep(std::move(call));
  Status told;
  {
    const GilReleased released;
    told = handle_.then([kept](const Status& status) { run_callback(kept, status); });
  }
  check(told);
}

void bind_handle(nb::module_& module) {
  nb::class_<Operation>(module, "Handle",
                        "A started operation. Arrays that it uses are kept alive until it is done, "
                        "also if the handle is dropped. It can be awaited.")
      .def("wait", &Operation::wait, nb::arg("timeout") = nb::none(),
           nb::sig("def wait(self, timeout: float | None = None) -> typing.Any"),
           "Waits until the operation is done and returns its result, the output array.\n\n"
           "timeout: seconds, or None for the operation's own deadline. After the timeout TimedOut "
           "is raised, and the operation goes on. An operation that failed raises its error, each "
           "time again.")
      .def("test", &Operation::test,
           "Whether the operation is done, with or without an error. Never waits.")
      .def("done", &Operation::test, "The same as test().")
      .def(
          "then", &Operation::then, nb::arg("callback"),
          nb::sig("def then(self, callback: "
                  "collections.abc.Callable[[BaseException | None], object]) -> None"),
          "Calls callback(error) once, with None for success, on Weft's completion thread when the "
          "operation is done. It may start operations and wait for them. Callbacks run in turn, so "
          "it must not wait for what another one of its context does. What it raises goes to "
          "sys.unraisablehook.")
      .def_prop_rw(
          "result", [](const Operation& self) { return self.result(); },
          [](Operation& self, nb::object result) { self.set_result(std::move(result)); },
          nb::for_setter(nb::arg("value").none()),
          nb::for_setter(nb::sig("def result(self, value: typing.Any, /) -> None")),
          nb::for_getter(nb::sig("def result(self, /) -> typing.Any")),
          "The output array; valid once the operation is done.")
      .def_prop_ro(
          "needs_polling",
          [](const Operation& self) { return self.has_no_thread() || is_in_callback; },
          "Whether an event loop has to test the operation: it moves only while a caller waits or "
          "tests (WEFT_PROGRESS=waiter), or the caller is a callback, and until it returns no "
          "other callback runs.")
      .def(
          "__await__",
          [](nb::object self) {
            return nb::module_::import_("weft._awaiting").attr("awaiting")(self);
          },
          nb::sig("def __await__(self) -> "
                  "collections.abc.Generator[typing.Any, None, typing.Any]"));
}

}  // namespace weft::python
