// arrays: reading buffers of NumPy arrays, and DLPack capsules.
#include "bindings/python/core/arrays.h"

#include <nanobind/ndarray.h>

#include <optional>
#include <utility>

#include "bindings/python/core/bindings.h"

namespace weft::python {
namespace {

// numpy.ndarray, looked up at the first use. Owned for the life of the process.
PyObject* numpy_array_class() {
  static PyObject* const found = [] {
    return nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();
  }();
  return found;
}

std::optional<DataType> integer_type(bool is_signed, Py_ssize_t bytes) {
  switch (bytes) {
    case 1:
      return is_signed ? DataType::i8 : DataType::u8;
    case 2:
      return is_signed ? DataType::i16 : DataType::u16;
    case 4:
      return is_signed ? DataType::i32 : DataType::u32;
    case 8:
      return is_signed ? DataType::i64 : DataType::u64;
    default:
      return std::nullopt;
  }
}

// The numbers that DLPack 1.1 gave to the 8-bit floating types. nanobind has no names for them.
const char* kind_of_8_bits(std::uint8_t code) {
  constexpr std::uint8_t kE4m3 = 10, kE5m2 = 12;
  if (code == kE4m3) return "float8_e4m3fn";
  return code == kE5m2 ? "float8_e5m2" : "other";
}

// The type that a format of the struct module names, in native byte order.
std::optional<DataType> type_of_format(const char* format, Py_ssize_t bytes) {
  if (format == nullptr || format[0] == '\0' || format[1] != '\0') return std::nullopt;
  switch (format[0]) {
    case 'e':
      return DataType::f16;
    case 'f':
      return DataType::f32;
    case 'd':
      return DataType::f64;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return integer_type(true, bytes);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      return integer_type(false, bytes);
    default:
      return std::nullopt;
  }
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

}  // namespace

bool NumpyView::open(nb::handle object, bool writable) {
  if (object.type().ptr() != numpy_array_class()) return false;
  const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), &buffer_, flags) != 0) {
    PyErr_Clear();
    return false;
  }
  is_held_ = true;
  const std::optional<DataType> type = type_of_format(buffer_.format, buffer_.itemsize);
  if (!type) return false;
  type_ = *type;
  count_ = static_cast<std::size_t>(buffer_.len / buffer_.itemsize);
  return true;
}

namespace {

nb::object plain_memory(nb::handle array, bool writes) {
  NumpyView view;
  if (!view.open(array, writes)) return nb::none();
  const Input memory = view.input();
  return nb::make_tuple(reinterpret_cast<std::uintptr_t>(memory.data), memory.count,
                        static_cast<int>(memory.type));
}

}  // namespace

void bind_arrays(nb::module_& module) {
  module.def("plain_memory", &plain_memory, nb::arg("array"), nb::arg("writes"),
             nb::sig("def plain_memory(array: object, writes: bool) -> "
                     "tuple[int, int, int] | None"),
             "Address, elements and DataType number of a NumPy array that operations take as it "
             "is; None for any other array.");
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
