// errors: a Status as a Python exception. weft._errors has one class for each Code.
#pragma once

#include <nanobind/nanobind.h>
#include <weft/weft.h>

#include <utility>

namespace weft::python {

namespace nb = nanobind;

// Reads the exception classes. Called once, when the module is imported.
void load_errors();

// The exception for a Status that is not ok, as an object. The GIL is held.
[[nodiscard]] nb::object error_of(const Status& status);

// Throws the exception for a Status that is not ok. The GIL is held.
[[noreturn]] void raise(const Status& status);

inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}

template <typename T>
T check(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

// An InvalidArgument with this text.
[[noreturn]] void raise_invalid(std::string text);

}  // namespace weft::python
