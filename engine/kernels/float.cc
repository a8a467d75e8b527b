// f32 and f64: lanes are the elements.
// Compiled once per instruction set by including itself through Highway's foreach_target.
#include "engine/kernels/select.h"
#include "engine/kernels/targets.h"

// foreach_target.h comes before everything that is compiled per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/float.cc"
#include "hwy/foreach_target.h"
#include "engine/kernels/loop-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {

CombineFunction float_function(DataType type, Reduction reduction) {
  switch (type) {
    case DataType::f32:
      return floating_function<Plain<float>>(reduction);
    case DataType::f64:
      return floating_function<Plain<double>>(reduction);
    default:
      return nullptr;
  }
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(float_function);

CombineFunction select_float(DataType type, Reduction reduction) {
  return HWY_DYNAMIC_DISPATCH(float_function)(type, reduction);
}

}  // namespace weft
#endif  // HWY_ONCE
