// convert: f32 in 16 or 8 bits and back.
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

// Whole vectors, then elements one by one. Multiplying by a factor of 1 changes nothing but the payload of a
// NaN.
template <class From, class To>
HWY_INLINE void convert(const std::uint8_t* from, float factor, std::uint8_t* to,
                        std::size_t count) {
  const hn::ScalableTag<float> whole;
  const hn::CappedTag<float, 1> one;
  const auto each = [&](auto d, std::size_t i) HWY_ATTR {
    const auto values = From::load(d, from + i * From::kBytes);
    To::store(d, hn::Mul(values, hn::Set(d, factor)), to + i * To::kBytes);
  };
  const std::size_t lanes = hn::Lanes(whole);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) each(whole, i);
  for (; i < count; ++i) each(one, i);
}

void widen_all(DataType type, const std::uint8_t* from, float factor, std::uint8_t* to,
               std::size_t count) {
  switch (type) {
    case DataType::e4m3:
      return convert<Float8E4m3, Single>(from, factor, to, count);
    case DataType::e5m2:
      return convert<Float8E5m2, Single>(from, factor, to, count);
    default:
      return convert<Half, Single>(from, factor, to, count);
  }
}
void narrow_all(DataType type, const std::uint8_t* from, float factor, std::uint8_t* to,
                std::size_t count) {
  switch (type) {
    case DataType::e4m3:
      return convert<Single, Float8E4m3>(from, factor, to, count);
    case DataType::e5m2:
      return convert<Single, Float8E5m2>(from, factor, to, count);
    default:
      return convert<Single, Half>(from, factor, to, count);
  }
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(widen_all);
HWY_EXPORT(narrow_all);

void widen(DataType type, const void* from, std::span<float> to, float factor) {
  HWY_DYNAMIC_DISPATCH(widen_all)
  (type, static_cast<const std::uint8_t*>(from), factor, reinterpret_cast<std::uint8_t*>(to.data()),
   to.size());
}

void narrow(DataType type, std::span<const float> from, void* to, float factor) {
  HWY_DYNAMIC_DISPATCH(narrow_all)
  (type, reinterpret_cast<const std::uint8_t*>(from.data()), factor, static_cast<std::uint8_t*>(to),
   from.size());
}

}  // namespace weft
#endif  // HWY_ONCE
