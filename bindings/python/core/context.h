// context: what Python holds of a context.
#pragma once

#include <nanobind/nanobind.h>

#include "bindings/python/core/session.h"

namespace weft::python {

// Copies share the session.
struct PyContext {
  SharedSession session;

  [[nodiscard]] Session& operator*() const { return *session; }
  [[nodiscard]] Session* operator->() const { return session.get(); }
};

// Adds the functions that make, find and free windows.
void bind_context_windows(nb::class_<PyContext>& type);
// Adds the functions that make and end operations by name.
void bind_context_named(nb::class_<PyContext>& type);

}  // namespace weft::python
