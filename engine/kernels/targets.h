// The instruction sets that the SIMD files of this module are compiled for. Include it before any
// header of Highway. SSSE3 and SSE4 are left out: they have neither a fused multiply-add nor f16
// conversions, so they would need emulation to give the bits that every other machine gives, and no
// CPU of interest stops there. Such a CPU runs the portable scalar variant.
// Vectors whose size the compiler does not know (SVE, RVV) are left out as well: the loop keeps
// vectors in arrays, and NEON is what every 64-bit ARM has.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
