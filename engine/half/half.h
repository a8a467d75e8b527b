// half: the two 16-bit floating types in portable C++: f16 (IEEE binary16) and bf16 (the upper half of an
// f32). Used where the CPU has no instruction for them, and by tests as the reference. Values are
// passed as their bits. Narrowing rounds to nearest, ties to even; a NaN stays a NaN and becomes
// quiet.
#pragma once

#include <bit>
#include <cstdint>

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

}  // namespace weft
