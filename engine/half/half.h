// half: the narrow floating types in portable C++. Two have 16 bits: f16 (IEEE binary16) and bf16 (the upper
// half of an f32). Two have 8 bits: e4m3 and e5m2 of the Open Compute Project (OFP8). Used where the CPU has
// no instruction for them, by GPUs, and by tests as the reference. Values are passed as their bits.
//
// Narrowing rounds to nearest, ties to even; a NaN stays a NaN and becomes quiet. What is too large becomes
// infinity. e4m3 has no infinity: what would round beyond 448, and infinity itself, become NaN there, so that
// an overflow stays visible.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace weft {

[[nodiscard]] constexpr float f32_from_bf16(std::uint16_t half) {
  return std::bit_cast<float>(std::uint32_t{half} << 16);
}

[[nodiscard]] constexpr std::uint16_t bf16_from_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  // Adding just under half of the last kept bit carries exactly when rounding up is due; the last
  // kept bit itself turns ties towards even. A carry out of the mantissa is the next exponent,
  // infinity last.
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

[[nodiscard]] constexpr float f32_from_f16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1F;
  const std::uint32_t mantissa = half & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in f32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t rebiased = exponent == 0x1F ? 0xFF : exponent + (127 - 15);
  const std::uint32_t quiet = exponent == 0x1F && mantissa != 0 ? 1u << 22 : 0;
  return std::bit_cast<float>(sign | (rebiased << 23) | (mantissa << 13) | quiet);
}

[[nodiscard]] constexpr std::uint16_t f16_from_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  std::uint32_t rounded = 0;
  if (magnitude > 0x7F800000) {  // NaN
    rounded = 0x7E00 | ((magnitude >> 13) & 0x3FF);
  } else if (magnitude >= 0x477FF000) {  // 65520 and above round to infinity
    rounded = 0x7C00;
  } else if (magnitude < 0x38800000) {  // below 2^-14, f16 is a fixed-point number of step 2^-24
    // Adding 0.5 puts that step at the last bit of an f32's mantissa, so the addition itself
    // rounds.
    rounded = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
              std::bit_cast<std::uint32_t>(0.5f);
  } else {
    const std::uint32_t rebiased = magnitude - ((127u - 15u) << 23);
    rounded = (rebiased + 0xFFF + ((rebiased >> 13) & 1)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | rounded);
}

// An 8-bit type: its mantissa, the bias of its exponent, and without the sign what follows its largest
// number and a NaN.
struct E4m3 {
  static constexpr std::uint32_t kMantissaBits = 3, kBias = 7;
  static constexpr std::uint32_t kOverflow = 0x7F, kNan = 0x7F;
};
struct E5m2 {
  static constexpr std::uint32_t kMantissaBits = 2, kBias = 15;
  static constexpr std::uint32_t kOverflow = 0x7C, kNan = 0x7E;
};

// How an f32 is narrowed to an 8-bit type, in numbers of its bits.
template <class Form>
struct Narrowing {
  static constexpr std::uint32_t kDropped = 23 - Form::kMantissaBits;  // bits of the mantissa
  static constexpr std::uint32_t kRebias = (127 - Form::kBias) << 23;
  // Below this the type is a fixed-point number. Adding `kShifter` puts its step at the last bit of an f32's
  // mantissa, so the addition itself rounds.
  static constexpr std::uint32_t kLeastNormal = kRebias + (1U << 23);
  static constexpr std::uint32_t kShifter = (127 - Form::kBias + 1 + kDropped) << 23;
};

template <class Form>
[[nodiscard]] constexpr std::uint8_t f8_from_f32(float value) {
  using To = Narrowing<Form>;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24) & 0x80;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  std::uint32_t rounded = 0;
  if (magnitude > 0x7F800000) {
    rounded = Form::kNan;
  } else if (magnitude < To::kLeastNormal) {
    rounded = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) +
                                           std::bit_cast<float>(To::kShifter)) -
              To::kShifter;
  } else {
    const std::uint32_t rebiased = magnitude - To::kRebias;
    const std::uint32_t last_bit = (rebiased >> To::kDropped) & 1;
    rounded = (rebiased + ((1U << (To::kDropped - 1)) - 1) + last_bit) >> To::kDropped;
    rounded = rounded < Form::kOverflow ? rounded : Form::kOverflow;
  }
  return static_cast<std::uint8_t>(sign | rounded);
}
[[nodiscard]] constexpr std::uint8_t e4m3_from_f32(float value) {
  return f8_from_f32<E4m3>(value);
}
[[nodiscard]] constexpr std::uint8_t e5m2_from_f32(float value) {
  return f8_from_f32<E5m2>(value);
}

// The f16 with the bits of an e4m3 has an exponent that is 8 too small.
inline constexpr float kF16OfE4m3 = 256;
[[nodiscard]] constexpr std::uint16_t f16_bits_of_e4m3(std::uint32_t byte) {
  return static_cast<std::uint16_t>((byte & 0x80) << 8 | (byte & 0x7F) << 7);
}
[[nodiscard]] constexpr float f32_from_e4m3(std::uint8_t byte) {
  if ((byte & 0x7F) == E4m3::kNan) return std::numeric_limits<float>::quiet_NaN();
  return f32_from_f16(f16_bits_of_e4m3(byte)) * kF16OfE4m3;
}

// e5m2 is the upper half of an f16.
[[nodiscard]] constexpr float f32_from_e5m2(std::uint8_t byte) {
  return f32_from_f16(static_cast<std::uint16_t>(byte << 8));
}

}  // namespace weft
