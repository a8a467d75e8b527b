// plain_array: NumPy's arrays by the buffer protocol, torch's tensors by DLPack's exchange API.
#include "bindings/python/core/plain_array.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <optional>

namespace weft::python {
namespace {

// numpy.ndarray, looked up at the first use. Owned for the life of the process.
PyObject* numpy_array_class() {
  static PyObject* const found = [] {
    return nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();
  }();
  return found;
}

// DLPackExchangeAPI, as DLPack 1 has it. Its functions throw nothing.
struct ExchangeApi {
  std::uint32_t major, minor;
  void* before;
  void* allocate;
  void* give;
  void* take;
  // Describes a tensor of the class that has the table. Returns 0, or -1 with a Python error.
  int (*describe)(PyObject* tensor, nb::dlpack::dltensor* out);
  void* stream;
};

// torch's classes, owned for the life of the process, and their table; null in versions without one.
struct Torch {
  PyObject* tensor = nullptr;
  PyObject* parameter = nullptr;
  const ExchangeApi* api = nullptr;
};

nb::object attribute(nb::handle object, const char* name) {
  return object.is_valid() && !object.is_none() ? nb::getattr(object, name, nb::none())
                                                : nb::object(nb::none());
}

const ExchangeApi* table_of(nb::handle tensor_class) {
  constexpr std::uint32_t kMajor = 1;
  const nb::object capsule = attribute(tensor_class, "__dlpack_c_exchange_api__");
  if (!PyCapsule_CheckExact(capsule.ptr())) return nullptr;
  const auto* const api =
      static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (api == nullptr) PyErr_Clear();
  return api != nullptr && api->major == kMajor && api->describe != nullptr ? api : nullptr;
}

// Null as long as the program has not imported torch.
const Torch* find_torch() {
  static Torch torch;
  static bool is_found = false;
  if (is_found) return &torch;
  PyObject* const module = PyImport_GetModule(nb::str("torch").ptr());
  if (module == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  const nb::object owned = nb::steal(module);
  nb::object tensor = attribute(owned, "Tensor");
  nb::object parameter = attribute(attribute(owned, "nn"), "Parameter");
  if (tensor.is_none() || parameter.is_none()) return nullptr;  // it is being imported
  torch = {tensor.ptr(), parameter.ptr(), table_of(tensor)};
  (void)tensor.release();
  (void)parameter.release();
  is_found = true;
  return &torch;
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

std::optional<DataType> type_of_dlpack(const nb::dlpack::dtype& type) {
  using Kind = nb::dlpack::dtype_code;
  if (type.lanes != 1) return std::nullopt;
  switch (static_cast<Kind>(type.code)) {
    case Kind::Float:
      if (type.bits == 32) return DataType::f32;
      if (type.bits == 64) return DataType::f64;
      return type.bits == 16 ? std::optional(DataType::f16) : std::nullopt;
    case Kind::Bfloat:
      return type.bits == 16 ? std::optional(DataType::bf16) : std::nullopt;
    case Kind::Int:
    case Kind::UInt:
      return integer_type(static_cast<Kind>(type.code) == Kind::Int, type.bits / 8);
    default:
      return std::nullopt;
  }
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

bool is_contiguous(const nb::dlpack::dltensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (std::int32_t i = tensor.ndim; i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

// Whether the elements are the negatives of those in memory.
bool is_negated(nb::handle tensor) {
  static PyObject* const name = PyUnicode_InternFromString("is_neg");
  PyObject* const found = PyObject_CallMethodObjArgs(tensor.ptr(), name, nullptr);
  const bool is_plain = found == Py_False;
  Py_XDECREF(found);
  if (found == nullptr) PyErr_Clear();
  return !is_plain;
}

}  // namespace

bool PlainArray::open(nb::handle object, bool writable) {
  object_ = object;
  PyObject* const type = object.type().ptr();
  if (type == numpy_array_class()) return open_numpy(writable);
  const Torch* const torch = find_torch();
  is_tensor_ = torch != nullptr && (type == torch->tensor || type == torch->parameter);
  return is_tensor_ && torch->api != nullptr && open_torch();
}

bool PlainArray::open_numpy(bool writable) {
  const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object_.ptr(), &buffer_, flags) != 0) {
    PyErr_Clear();
    return false;
  }
  is_held_ = true;
  const std::optional<DataType> type = type_of_format(buffer_.format, buffer_.itemsize);
  if (!type) return false;
  type_ = *type;
  data_ = buffer_.buf;
  count_ = static_cast<std::size_t>(buffer_.len / buffer_.itemsize);
  return set_shape(buffer_.shape, static_cast<std::size_t>(buffer_.ndim));
}

bool PlainArray::open_torch() {
  constexpr std::int32_t kCpu = 1;  // DLPack's number
  nb::dlpack::dltensor tensor;
  if (find_torch()->api->describe(object_.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  const std::optional<DataType> type = type_of_dlpack(tensor.dtype);
  if (!type || tensor.device.device_type != kCpu || !is_contiguous(tensor)) return false;
  if (!set_shape(tensor.shape, static_cast<std::size_t>(tensor.ndim))) return false;
  type_ = *type;
  count_ = 1;
  for (const std::size_t extent : shape()) count_ *= extent;
  if (tensor.data == nullptr && count_ != 0) return false;  // one without memory
  data_ = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  return !is_negated(object_);
}

template <typename Extent>
bool PlainArray::set_shape(const Extent* extents, std::size_t dimensions) {
  if (dimensions > kMostDimensions) return false;
  dimensions_ = dimensions;
  std::copy_n(extents, dimensions, shape_.begin());
  return true;
}

nb::object PlainArray::owner() const {
  return is_tensor_ ? object_.attr("detach")() : nb::borrow(object_);
}

}  // namespace weft::python
