// types: the enums of operations, reductions, element types and algorithms. Their numbers are those
// of the C++ API and of the wire.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>
#include <weft/weft.h>

#include <cstdint>
#include <string>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"

namespace weft::python {
namespace nb = nanobind;

namespace {

// The entries have the names that Weft's own messages use, as far as these are identifiers.
std::string entry_name(Collective value) {
  return value == Collective::send ? "send" : std::string(name(value));
}
template <typename Enum>
std::string entry_name(Enum value) {
  return std::string(name(value));
}

template <typename Enum>
void bind_enum(nb::module_& module, const char* name_here, int first, int last, const char* doc) {
  nb::enum_<Enum> type(module, name_here, doc, nb::is_arithmetic());
  for (int value = first; value <= last; ++value) {
    const auto each = static_cast<Enum>(value);
    type.value(entry_name(each).c_str(), each);
  }
}

}  // namespace

void bind_types(nb::module_& module) {
  bind_enum<DataType>(module, "DataType", 0, static_cast<int>(kDataTypes) - 1,
                      "The type of an array's elements.");
  bind_enum<ReduceOp>(module, "ReduceOp", 0, static_cast<int>(ReduceOp::bit_xor),
                      "How the elements of several ranks become one.");
  bind_enum<Collective>(module, "Collective", 1, static_cast<int>(kCollectives),
                        "Which operation.");
  bind_enum<AllreduceAlgorithm>(module, "AllreduceAlgorithm", 0,
                                static_cast<int>(AllreduceAlgorithm::nccl),
                                "How an allreduce is done.");
  bind_enum<Bits>(module, "Bits", 0, static_cast<int>(Bits::fixed), "Which bits a sum has.");
  bind_enum<Compression>(module, "Compression", 0, static_cast<int>(kCompressions) - 1,
                         "How tensors travel.");
  nb::class_<ErrorFeedback>(
      module, "ErrorFeedback",
      "What compression has taken from one tensor, which is added to the next "
      "one. One for each tensor, kept from step to step.")
      .def(nb::init<>())
      .def(
          "residual", [](const ErrorFeedback& self) { return check(self.residual()); },
          "What the receivers have not got yet; empty before the first use. InvalidArgument while "
          "an "
          "operation uses it.")
      .def(
          "clear", [](ErrorFeedback& self) { check(self.clear()); },
          "Begins anew, for another tensor or after an error.");
  module.def(
      "size_of", [](DataType type) { return size_of(type); }, nb::arg("type"),
      "Bytes of one element.");
}

}  // namespace weft::python
