// f16, bf16, e4m3 and e5m2: fewer bytes in memory, f32 in the lanes.
// Compiled once per instruction set by including itself through Highway's foreach_target.
#include "engine/kernels/select.h"
#include "engine/kernels/targets.h"

// foreach_target.h comes before everything that is compiled per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/narrow.cc"
#include "hwy/foreach_target.h"
#include "engine/kernels/loop-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {

CombineFunction narrow_function(DataType type, Reduction reduction) {
  switch (type) {
    case DataType::f16:
      return floating_function<Converted<Float16>>(reduction);
    case DataType::bf16:
      return floating_function<BFloat16>(reduction);
    case DataType::e4m3:
      return floating_function<Float8E4m3>(reduction);
    case DataType::e5m2:
      return floating_function<Float8E5m2>(reduction);
    default:
      return nullptr;
  }
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(narrow_function);

CombineFunction select_narrow(DataType type, Reduction reduction) {
  return HWY_DYNAMIC_DISPATCH(narrow_function)(type, reduction);
}

}  // namespace weft
#endif  // HWY_ONCE
