// errors: looks up the class for a Code, and makes its instances.
#include "bindings/python/core/errors.h"

#include <array>

namespace weft::python {
namespace {

// Owned for the life of the process: exceptions are also made while the interpreter shuts down.
PyObject* classes = nullptr;  // dict of code name -> class

}  // namespace

void load_errors() {
  if (classes == nullptr) {
    classes = nb::object(nb::module_::import_("weft._errors").attr("CLASSES")).release().ptr();
  }
}

nb::object error_of(const Status& status) {
  const std::string_view code = name(status.code());
  const nb::object type = nb::borrow(classes)[nb::str(code.data(), code.size())];
  nb::object error = type(nb::str(status.text().data(), status.text().size()));
  if (status.rank() != kNoRank) error.attr("rank") = status.rank();
  return error;
}

void raise(const Status& status) {
  const nb::object error = error_of(status);
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

void raise_invalid(std::string text) {
  raise(Status(Code::invalid_argument, std::move(text)));
}

}  // namespace weft::python
