// f16 and bf16: half the bytes in memory, f32 in the lanes.
// Compiled once per instruction set by including itself through Highway's foreach_target.
#include "engine/kernels/select.h"
#include "engine/kernels/targets.h"

// foreach_target.h comes before everything that is compiled per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/half.cc"
#include "hwy/foreach_target.h"
#include "engine/kernels/loop-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {

CombineFunction half_function(DataType type, Reduction reduction) {
  switch (type) {
    case DataType::f16:
      return floating_function<Converted<Float16>>(reduction);
    case DataType::bf16:
      return floating_function<BFloat16>(reduction);
    default:
      return nullptr;
  }
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(half_function);

CombineFunction select_half(DataType type, Reduction reduction) {
  return HWY_DYNAMIC_DISPATCH(half_function)(type, reduction);
}

}  // namespace weft
#endif  // HWY_ONCE
