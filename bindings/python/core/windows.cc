// windows: the functions of a context that make, find and free windows.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <weft/macros.h>
#include <weft/weft.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/core/context.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/request.h"
#include "bindings/python/core/waiting.h"
#include "bindings/python/core/window.h"

namespace weft::python {
namespace {

// If a signal ends the wait, the window may still be made. Then only its name leads to it.
PyWindow win_create(const PyContext& self, const std::string& name, std::uintptr_t x,
                    std::size_t count, int dtype, bool zero_init,
                    std::optional<std::uintptr_t> stream, nb::object array, nb::object kept) {
  const Session::Use use = self->context();
  auto open = std::make_shared<OpenWindow>();
  open->array = keep(std::move(array));
  open->memory = keep(std::move(kept));
  open->context = use.shared();
  open->rank = self->rank();
  open->has_no_thread = self->has_no_thread();
  open->deadline_ns = use->config().deadline_ms * std::int64_t{1'000'000};
  const Output memory{reinterpret_cast<void*>(x), count, type_of(dtype)};
  check(interruptible<Status>([open, memory, name, zero_init, behind = stream_of(stream),
                               context = use.shared(), windows = use.windows()]() -> Status {
    const WindowOptions options{.zero_init = zero_init, .stream = behind};
    WEFT_ASSIGN(open->window, context->win_create(memory, name, options));
    windows->add(open);
    return {};
  }));
  return {open};
}

PyWindow window(const PyContext& self, const std::string& name) {
  const Session::Use use = self->context();
  (void)check(use->window(name));
  SharedWindow found = use.windows()->find(name);
  if (found == nullptr) raise_invalid("window \"" + name + "\" was not made in Python");
  return {std::move(found)};
}

std::vector<std::string> window_names(const PyContext& self) {
  return self->context()->window_names();
}

void win_free(const PyContext& self, const std::string& name) {
  const Session::Use use = self->context();
  check(interruptible<Status>([name, context = use.shared(), windows = use.windows()]() -> Status {
    const SharedWindow ended = windows->find(name);
    WEFT_RETURN_IF_ERROR(context->win_free(name));
    if (ended != nullptr) windows->forget(ended);
    return {};
  }));
}

// Some windows may have ended also if there is an error.
void win_free_all(const PyContext& self) {
  const Session::Use use = self->context();
  check(interruptible<Status>([context = use.shared(), windows = use.windows()] {
    const std::vector<SharedWindow> before = windows->all();
    const Status status = context->win_free_all();
    const std::vector<std::string> left = context->window_names();
    for (const SharedWindow& each : before) {
      if (std::ranges::find(left, each->window.name()) == left.end()) windows->forget(each);
    }
    return status;
  }));
}

void win_fence(const PyContext& self) {
  const Session::Use use = self->context();
  check(interruptible<Status>([context = use.shared()] { return context->win_fence(); }));
}

}  // namespace

void bind_context_windows(nb::class_<PyContext>& type) {
  type.def("win_create_raw", &win_create, nb::arg("name"), nb::arg("x"), nb::arg("count"),
           nb::arg("dtype"), nb::arg("zero_init"), nb::arg("stream").none(), nb::arg("array"),
           nb::arg("keep"),
           nb::sig("def win_create_raw(self, name: str, x: int, count: int, dtype: int, zero_init: "
                   "bool, stream: int | None, array: object, keep: object) -> Window"),
           "Makes a window of memory given by address. `array`, of which the window is made, and "
           "`keep`, which owns its memory, live until the window has ended.");
  type.def("window", &window, nb::arg("name"), "The window of that name.");
  type.def("window_names", &window_names, "The names of all windows, in ascending order.");
  type.def("win_free", &win_free, nb::arg("name"),
           "Collective: ends the window. If a rank still uses it, all ranks get an error, and the "
           "window goes on.");
  type.def("win_free_all", &win_free_all, "Collective: ends all windows.");
  type.def("win_fence", &win_fence,
           "Collective: waits until the works of all ranks on all windows have ended.");
}

}  // namespace weft::python
