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

}  // namespace weft
