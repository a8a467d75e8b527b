// half: what the header promises, checked by the compiler.
#include "engine/half/half.h"

#include <limits>

namespace weft {

static_assert(f16_from_f32(1.0F) == 0x3C00 && f32_from_f16(0x3C00) == 1.0F);
static_assert(f16_from_f32(65'504.0F) == 0x7BFF && f16_from_f32(65'520.0F) == 0x7C00);
static_assert(f16_from_f32(0x1p-24F) == 1 && f32_from_f16(1) == 0x1p-24F);
static_assert(f16_from_f32(1.0F + 0x1p-11F) == 0x3C00 && f16_from_f32(1.0F + 0x3p-11F) == 0x3C02);
static_assert(bf16_from_f32(1.0F) == 0x3F80 && f32_from_bf16(0x3F80) == 1.0F);
static_assert(bf16_from_f32(1.0F + 0x1p-8F) == 0x3F80 && bf16_from_f32(1.0F + 0x3p-8F) == 0x3F82);
static_assert(bf16_from_f32(std::numeric_limits<float>::max()) == 0x7F80);
static_assert(e4m3_from_f32(1.0F) == 0x38 && f32_from_e4m3(0x38) == 1.0F);
static_assert(e4m3_from_f32(464.0F) == 0x7E && f32_from_e4m3(0x7E) == 448.0F);
static_assert(e4m3_from_f32(std::numeric_limits<float>::infinity()) == 0x7F);
static_assert(e5m2_from_f32(1.0F) == 0x3C && f32_from_e5m2(0x3C) == 1.0F);
static_assert(e5m2_from_f32(61'440.0F) == 0x7C && f32_from_e5m2(0x7B) == 57'344.0F);

}  // namespace weft
