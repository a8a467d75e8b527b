// The instruction sets for which the SIMD files of this module are compiled. Include this header
// before any header of Highway.
//
// SSSE3 and SSE4 are left out. They have neither a fused multiply-add nor f16 conversions, so they
// would need emulation to give the same bits as other machines, and few CPUs have nothing newer.
// Such a CPU runs the portable scalar variant. Vectors whose size the compiler does not know (SVE,
// RVV) are left out as well, because the loop keeps vectors in arrays. Every 64-bit ARM has NEON.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
