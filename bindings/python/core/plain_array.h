// plain_array: the memory of arrays that operations take as they are, which is read in a fraction of a
// microsecond. Every other array is described by weft._arrays, which also says what is wrong with it.
//
// Plain is an object of class numpy.ndarray itself, or of torch.Tensor or torch.nn.Parameter themselves, in
// the memory of the CPU, dense, contiguous in row-major order, of a type that Weft computes with, and
// writable if that is asked for. torch is never imported, and is read through the table of functions that
// its classes have since 2.10 (DLPack's exchange API), so nothing here is compiled against it.
#pragma once

#include <nanobind/nanobind.h>
#include <weft/weft.h>

#include <array>
#include <cstddef>
#include <span>

namespace weft::python {

namespace nb = nanobind;

// The memory of such an array, which lives as long as the array does. The GIL guards it.
class PlainArray {
 public:
  PlainArray() = default;
  ~PlainArray() {
    if (is_held_) PyBuffer_Release(&buffer_);
  }
  PlainArray(const PlainArray&) = delete;
  PlainArray& operator=(const PlainArray&) = delete;

  // Whether `object` is plain. Sets no Python error.
  [[nodiscard]] bool open(nb::handle object, bool writable);

  [[nodiscard]] Input input() const { return {data_, count_, type_}; }
  [[nodiscard]] Output output() const { return {data_, count_, type_}; }
  [[nodiscard]] std::span<const std::size_t> shape() const { return {shape_.data(), dimensions_}; }
  // An object that keeps the memory. A tensor alone does not: a program may give it another storage.
  [[nodiscard]] nb::object owner() const;

 private:
  static constexpr std::size_t kMostDimensions = 8;

  [[nodiscard]] bool open_numpy(bool writable);
  [[nodiscard]] bool open_torch();
  // Whether the extents are so few.
  template <typename Extent>
  [[nodiscard]] bool set_shape(const Extent* extents, std::size_t dimensions);

  nb::handle object_;
  Py_buffer buffer_{};
  bool is_held_ = false;
  bool is_tensor_ = false;
  void* data_ = nullptr;
  std::size_t count_ = 0;
  DataType type_ = DataType::f32;
  std::array<std::size_t, kMostDimensions> shape_{};
  std::size_t dimensions_ = 0;
};

}  // namespace weft::python
