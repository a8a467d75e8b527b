// Elements of any floating type, written and read as doubles: for tests that run over all types.
#pragma once

#include <cstring>
#include <string>

#include "engine/half/half.h"
#include "tests/context/job.h"

namespace weft {

class Elements {
 public:
  Elements(DataType type, std::size_t count, bool foreign)
      : type_(type), count_(count), bytes_(count * size_of(type), foreign) {}

  void put(std::size_t i, double value) {
    const auto single = static_cast<float>(value);
    switch (type_) {
      case DataType::f64:
        return store(i, value);
      case DataType::f32:
        return store(i, single);
      case DataType::bf16:
        return store(i, bf16_from_f32(single));
      case DataType::e4m3:
        return store(i, e4m3_from_f32(single));
      case DataType::e5m2:
        return store(i, e5m2_from_f32(single));
      default:
        return store(i, f16_from_f32(single));
    }
  }
  double get(std::size_t i) {
    switch (type_) {
      case DataType::f64:
        return load<double>(i);
      case DataType::f32:
        return static_cast<double>(load<float>(i));
      case DataType::bf16:
        return static_cast<double>(f32_from_bf16(load<std::uint16_t>(i)));
      case DataType::e4m3:
        return static_cast<double>(f32_from_e4m3(load<std::uint8_t>(i)));
      case DataType::e5m2:
        return static_cast<double>(f32_from_e5m2(load<std::uint8_t>(i)));
      default:
        return static_cast<double>(f32_from_f16(load<std::uint16_t>(i)));
    }
  }
  Input input() { return {bytes_.data(), count_, type_}; }
  Output output() { return {bytes_.data(), count_, type_}; }
  std::string bits() {
    return {reinterpret_cast<const char*>(bytes_.data()), count_ * size_of(type_)};
  }
  // The relative distance of neighboring values.
  [[nodiscard]] double spacing() const {
    return type_ == DataType::f64    ? 0x1p-52
           : type_ == DataType::f32  ? 0x1p-23
           : type_ == DataType::f16  ? 0x1p-10
           : type_ == DataType::bf16 ? 0x1p-7
           : type_ == DataType::e4m3 ? 0x1p-3
                                     : 0x1p-2;
  }

 private:
  template <typename T>
  void store(std::size_t i, T value) {
    std::memcpy(bytes_.data() + i * sizeof value, &value, sizeof value);
  }
  template <typename T>
  T load(std::size_t i) {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof value, sizeof value);
    return value;
  }

  DataType type_;
  std::size_t count_;
  Array<std::byte> bytes_;
};

}  // namespace weft
