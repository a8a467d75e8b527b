// The instruction sets of this processor, as Highway's dispatch asks for them: HWY_DYNAMIC_DISPATCH
// calls these functions. Highway has them in a shared library of its own; Weft brings its
// answer along, so that a program that links Weft needs no libhwy.
#include <atomic>
#include <cstdint>

#include "engine/kernels/targets.h"

// The lists of targets are macros of the header below.
#include "hwy/targets.h"
#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace {

// What a test has chosen; 0: nothing.
std::atomic<std::int64_t> chosen_by_test{0};

#if HWY_ARCH_X86
// Clang's __builtin_cpu_supports() does not know these two.
bool has_f16c_and_lzcnt() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_F16C) == 0) return false;
  return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}
#endif

}  // namespace

namespace hwy {

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

// The sets that Highway compiles for and this processor, with its operating system, can run. What
// each set stands for is in hwy/detect_targets.h.
std::int64_t SupportedTargets() {
  if (const std::int64_t chosen = chosen_by_test.load(); chosen != 0) return chosen;
  std::int64_t targets = HWY_STATIC_TARGET;
#if HWY_ARCH_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                    __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0 &&
                    has_f16c_and_lzcnt();
  const bool avx3 =
      avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512cd") != 0;
  if (avx2) targets |= HWY_AVX2;
  if (avx3) targets |= HWY_AVX3;
#endif
  return targets;
}

// The next dispatch asks again.
void SetSupportedTargetsForTest(std::int64_t targets) {
  chosen_by_test.store(targets);
  GetChosenTarget().DeInit();
}

}  // namespace hwy
