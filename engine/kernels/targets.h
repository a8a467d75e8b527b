// The instruction sets that the SIMD files of this module are compiled for. Include it before any
// header of Highway. SSSE3 and SSE4 are left out: they have neither a fused multiply-add nor f16
// conversions, so they would need emulation to give the bits that every other machine gives, and no
// CPU of interest stops there. Such a CPU runs the portable scalar variant.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
