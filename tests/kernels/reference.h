// The reference that combine() is held against: kernels.h's promises spelled out one element at a
// time, and the same reduction in extended precision with a bound of the error that rounding may
// have caused.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "engine/half/half.h"
#include "engine/kernels/kernels.h"

namespace weft::reference {

using Bytes = std::vector<std::uint8_t>;

// A type's memory form, the type that accumulates, and the way there and back.
template <class T>
struct Same {
  using Stored = T;
  using Value = T;
  static Value widen(Stored x) { return x; }
  static Stored narrow(Value x) { return x; }
};
struct F16 {
  using Stored = std::uint16_t;
  using Value = float;
  static Value widen(Stored x) { return f32_from_f16(x); }
  static Stored narrow(Value x) { return f16_from_f32(x); }
};
struct Bf16 {
  using Stored = std::uint16_t;
  using Value = float;
  static Value widen(Stored x) { return f32_from_bf16(x); }
  static Stored narrow(Value x) { return bf16_from_f32(x); }
};

struct F8E4m3 {
  using Stored = std::uint8_t;
  using Value = float;
  static Value widen(Stored x) { return f32_from_e4m3(x); }
  static Stored narrow(Value x) { return e4m3_from_f32(x); }
};
struct F8E5m2 {
  using Stored = std::uint8_t;
  using Value = float;
  static Value widen(Stored x) { return f32_from_e5m2(x); }
  static Stored narrow(Value x) { return e5m2_from_f32(x); }
};

// Calls `function` with the form of `type`.
template <class Function>
void with_type(DataType type, Function function) {
  switch (type) {
    case DataType::f16:
      return function(F16());
    case DataType::bf16:
      return function(Bf16());
    case DataType::f32:
      return function(Same<float>());
    case DataType::f64:
      return function(Same<double>());
    case DataType::i8:
      return function(Same<std::int8_t>());
    case DataType::u8:
      return function(Same<std::uint8_t>());
    case DataType::i32:
      return function(Same<std::int32_t>());
    case DataType::u32:
      return function(Same<std::uint32_t>());
    case DataType::i64:
      return function(Same<std::int64_t>());
    case DataType::u64:
      return function(Same<std::uint64_t>());
    case DataType::i16:
      return function(Same<std::int16_t>());
    case DataType::u16:
      return function(Same<std::uint16_t>());
    case DataType::e4m3:
      return function(F8E4m3());
    case DataType::e5m2:
      return function(F8E5m2());
    case DataType::bytes:  // is not computed with
      return;
  }
}

template <class V>
V lesser(V a, V b, bool greater) {
  if (a != a) return a;
  return (greater ? a > b : a < b) ? a : b;
}

template <class V>
V next_floating(Reduction reduction, V total, V weight, V x) {
  switch (reduction) {
    case Reduction::weighted_sum:
      return std::fma(weight, x, total);
    case Reduction::sum:
      return total + x;
    case Reduction::product:
      return total * x;
    case Reduction::min:
      return lesser(total, x, false);
    default:
      return lesser(total, x, true);
  }
}

template <class V>
V next_integer(Reduction reduction, V total, V x) {
  const auto a = static_cast<std::uint64_t>(total);
  const auto b = static_cast<std::uint64_t>(x);
  switch (reduction) {
    case Reduction::sum:
      return static_cast<V>(a + b);
    case Reduction::product:
      return static_cast<V>(a * b);
    case Reduction::bit_and:
      return static_cast<V>(a & b);
    case Reduction::bit_or:
      return static_cast<V>(a | b);
    case Reduction::bit_xor:
      return static_cast<V>(a ^ b);
    case Reduction::min:
      return lesser(total, x, false);
    default:
      return lesser(total, x, true);
  }
}

template <class V>
V reduce(Reduction reduction, const std::vector<V>& x, const std::vector<double>& weights,
         double divisor, bool is_narrow) {
  V total = x[0];
  if constexpr (std::is_floating_point_v<V>) {
    if (reduction == Reduction::weighted_sum) total = static_cast<V>(weights[0]) * x[0];
  }
  for (std::size_t t = 1; t < x.size(); ++t) {
    if constexpr (std::is_floating_point_v<V>) {
      total = next_floating(reduction, total, static_cast<V>(weights[t]), x[t]);
    } else {
      total = next_integer(reduction, total, x[t]);
    }
  }
  if constexpr (std::is_floating_point_v<V>) {
    if (reduction != Reduction::weighted_sum || divisor == 1.0) return total;
    total = is_narrow ? total * static_cast<V>(1.0 / divisor) : total / static_cast<V>(divisor);
  }
  return total;
}

template <class Stored>
Stored stored_at(const Bytes& bytes, std::size_t element) {
  Stored stored;
  std::memcpy(&stored, bytes.data() + element * sizeof(stored), sizeof(stored));
  return stored;
}

// The bytes that combine() has to produce.
inline Bytes combine(DataType type, Reduction reduction, const std::vector<Bytes>& inputs,
                     const std::vector<double>& weights, double divisor = 1.0) {
  Bytes result(inputs[0].size());
  with_type(type, [&](auto form) {
    using Form = decltype(form);
    std::vector<typename Form::Value> x(inputs.size());
    for (std::size_t i = 0; i < result.size() / sizeof(typename Form::Stored); ++i) {
      for (std::size_t t = 0; t < inputs.size(); ++t) {
        x[t] = Form::widen(stored_at<typename Form::Stored>(inputs[t], i));
      }
      const typename Form::Stored stored =
          Form::narrow(reduce(reduction, x, weights, divisor,
                              sizeof(typename Form::Stored) < sizeof(typename Form::Value)));
      std::memcpy(result.data() + i * sizeof(stored), &stored, sizeof(stored));
    }
  });
  return result;
}

// `count` elements: integers of all bits; floating values of both signs within a few powers of two
// of 1, with zeros and subnormals between them, no infinity or NaN, so that sums and products stay
// finite.
inline Bytes random_elements(DataType type, std::size_t count, std::mt19937_64& random) {
  Bytes bytes(count * size_of(type));
  std::uniform_real_distribution<double> uniform(-2.0, 2.0);
  with_type(type, [&](auto form) {
    using Form = decltype(form);
    for (std::size_t i = 0; i < count; ++i) {
      auto stored = static_cast<typename Form::Stored>(random());
      if constexpr (std::is_floating_point_v<typename Form::Value>) {
        const std::uint64_t kind = random() % 16;
        const double tiny = type == DataType::e4m3   ? 0x1p-8
                            : type == DataType::e5m2 ? 0x1p-15
                            : type == DataType::f16  ? 0x1p-20
                                                     : 0x1p-130;
        const double value = uniform(random) * (kind == 0 ? 0.0 : kind == 1 ? tiny : 1.0);
        stored = Form::narrow(static_cast<typename Form::Value>(value));
      }
      std::memcpy(bytes.data() + i * sizeof(stored), &stored, sizeof(stored));
    }
  });
  return bytes;
}

}  // namespace weft::reference
