// arrays: the memory of Python arrays. The plain NumPy array has a fast way; everything else is
// described by weft._arrays, which uses ArrayView for DLPack.
#pragma once

#include <nanobind/nanobind.h>
#include <weft/weft.h>

namespace weft::python {

namespace nb = nanobind;

// The memory of a NumPy array, held while the object lives. The GIL guards it.
class NumpyView {
 public:
  NumpyView() = default;
  ~NumpyView() {
    if (is_held_) PyBuffer_Release(&buffer_);
  }
  NumpyView(const NumpyView&) = delete;
  NumpyView& operator=(const NumpyView&) = delete;

  // Whether `object` is an array that operations take as it is: of class numpy.ndarray itself,
  // contiguous in row-major order, of a known type, and writable if asked for. Sets no Python error.
  [[nodiscard]] bool open(nb::handle object, bool writable);

  [[nodiscard]] Input input() const { return {buffer_.buf, count_, type_}; }
  [[nodiscard]] Output output() const { return {buffer_.buf, count_, type_}; }

 private:
  Py_buffer buffer_{};
  bool is_held_ = false;
  std::size_t count_ = 0;
  DataType type_ = DataType::f32;
};

}  // namespace weft::python
