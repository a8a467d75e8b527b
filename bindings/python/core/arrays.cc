// arrays: what weft._arrays needs of the core: plain arrays, and DLPack capsules.
#include <nanobind/ndarray.h>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/plain_array.h"

namespace weft::python {
namespace {

// The numbers that DLPack 1.1 gave to the 8-bit floating types. nanobind has no names for them.
const char* kind_of_8_bits(std::uint8_t code) {
  constexpr std::uint8_t kE4m3 = 10, kE5m2 = 12;
  if (code == kE4m3) return "float8_e4m3fn";
  return code == kE5m2 ? "float8_e5m2" : "other";
}

// An array of another library, by DLPack.
class ArrayView {
 public:
  explicit ArrayView(nb::handle capsule) {
    if (nb::try_cast(capsule, writable_, false)) return;
    if (nb::try_cast(capsule, readable_, false)) return;
    PyErr_Format(PyExc_TypeError, "expected a DLPack capsule, not %R", capsule.ptr());
    throw nb::python_error();
  }

  [[nodiscard]] bool is_writable() const { return writable_.is_valid(); }

  template <typename Read>
  auto read(Read read) const {
    return is_writable() ? read(writable_) : read(readable_);
  }

  [[nodiscard]] std::uintptr_t address() const {
    return read([](const auto& array) { return reinterpret_cast<std::uintptr_t>(array.data()); });
  }
  [[nodiscard]] nb::tuple shape() const {
    return numbers([](const auto& array, std::size_t i) { return array.shape(i); });
  }
  [[nodiscard]] nb::tuple strides() const {
    return numbers([](const auto& array, std::size_t i) { return array.stride(i); });
  }
  // The kind (float, int, uint, bfloat, complex, bool, float8_e4m3fn, float8_e5m2, or "other") and the bits
  // of an element.
  [[nodiscard]] nb::tuple dtype() const {
    const nb::dlpack::dtype type = read([](const auto& array) { return array.dtype(); });
    const char* kind = "other";
    if (type.lanes == 1) {
      switch (static_cast<nb::dlpack::dtype_code>(type.code)) {
        case nb::dlpack::dtype_code::Int:
          kind = "int";
          break;
        case nb::dlpack::dtype_code::UInt:
          kind = "uint";
          break;
        case nb::dlpack::dtype_code::Float:
          kind = "float";
          break;
        case nb::dlpack::dtype_code::Bfloat:
          kind = "bfloat";
          break;
        case nb::dlpack::dtype_code::Complex:
          kind = "complex";
          break;
        case nb::dlpack::dtype_code::Bool:
          kind = "bool";
          break;
        default:
          kind = kind_of_8_bits(type.code);
      }
    }
    return nb::make_tuple(kind, static_cast<int>(type.bits));
  }
  [[nodiscard]] int device() const {
    return read([](const auto& array) { return static_cast<int>(array.device_type()); });
  }

 private:
  template <typename Number>
  [[nodiscard]] nb::tuple numbers(Number number) const {
    return read([&](const auto& array) {
      nb::list list;
      for (std::size_t i = 0; i < array.ndim(); ++i) list.append(number(array, i));
      return nb::tuple(list);
    });
  }

  nb::ndarray<> writable_;
  nb::ndarray<nb::ro> readable_;
};

nb::object plain_memory(nb::handle array, bool writes) {
  PlainArray view;
  if (!view.open(array, writes)) return nb::none();
  const Input memory = view.input();
  return nb::make_tuple(reinterpret_cast<std::uintptr_t>(memory.data), memory.count,
                        static_cast<int>(memory.type));
}

}  // namespace

void bind_arrays(nb::module_& module) {
  module.def(
      "plain_memory", &plain_memory, nb::arg("array"), nb::arg("writes"),
      nb::sig("def plain_memory(array: object, writes: bool) -> "
              "tuple[int, int, int] | None"),
      "Address, elements and DataType number of an array of NumPy or torch that operations take "
      "as it is; None for any other array.");
  nb::class_<ArrayView>(module, "ArrayView",
                        "The memory behind a DLPack capsule. Keeps the memory alive.")
      .def(nb::init<nb::handle>(), nb::arg("capsule"))
      .def_prop_ro("address", &ArrayView::address)
      .def_prop_ro("shape", &ArrayView::shape, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro("strides", &ArrayView::strides, nb::sig("def strides(self) -> tuple[int, ...]"),
                   "In elements.")
      .def_prop_ro("dtype", &ArrayView::dtype, nb::sig("def dtype(self) -> tuple[str, int]"),
                   "The kind of an element (\"float\", \"int\", \"uint\", \"bfloat\", \"complex\", "
                   "\"bool\", \"float8_e4m3fn\", \"float8_e5m2\", \"other\") and its bits.")
      .def_prop_ro("device", &ArrayView::device, "DLPack's number of the device; 1: the CPU.")
      .def_prop_ro("is_writable", &ArrayView::is_writable);
}

}  // namespace weft::python
