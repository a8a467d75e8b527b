// convert: f32 in 16 bits and back.
// Compiled once per instruction set by including itself through Highway's foreach_target.
#include "engine/kernels/kernels.h"
#include "engine/kernels/targets.h"

// foreach_target.h comes before everything that is compiled per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/convert.cc"
#include "hwy/foreach_target.h"
#include "engine/kernels/formats-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {

using Half = Converted<Float16>;
using Single = Plain<float>;

// Whole vectors, then elements one by one.
template <class From, class To>
HWY_INLINE void convert(const std::uint8_t* from, std::uint8_t* to, std::size_t count) {
  const hn::ScalableTag<float> whole;
  const hn::CappedTag<float, 1> one;
  const std::size_t lanes = hn::Lanes(whole);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    To::store(whole, From::load(whole, from + i * From::kBytes), to + i * To::kBytes);
  for (; i < count; ++i)
    To::store(one, From::load(one, from + i * From::kBytes), to + i * To::kBytes);
}

void widen(const std::uint8_t* from, std::uint8_t* to, std::size_t count) {
  convert<Half, Single>(from, to, count);
}
void narrow(const std::uint8_t* from, std::uint8_t* to, std::size_t count) {
  convert<Single, Half>(from, to, count);
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(widen);
HWY_EXPORT(narrow);

void widen_f16(const void* from, std::span<float> to) {
  HWY_DYNAMIC_DISPATCH(widen)
  (static_cast<const std::uint8_t*>(from), reinterpret_cast<std::uint8_t*>(to.data()), to.size());
}

void narrow_to_f16(std::span<const float> from, void* to) {
  HWY_DYNAMIC_DISPATCH(narrow)
  (reinterpret_cast<const std::uint8_t*>(from.data()), static_cast<std::uint8_t*>(to), from.size());
}

}  // namespace weft
#endif  // HWY_ONCE
