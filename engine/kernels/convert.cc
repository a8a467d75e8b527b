// convert: f32 in 16 or 8 bits and back.
// Compiled once per instruction set by including itself through Highway's foreach_target.
#include <algorithm>
#include <bit>

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

// Calls each(tag, i) for whole vectors of elements from i on, then for elements one by one.
template <class Each>
HWY_INLINE void each_vector(std::size_t count, Each each) {
  const hn::ScalableTag<float> whole;
  const hn::CappedTag<float, 1> one;
  const std::size_t lanes = hn::Lanes(whole);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) each(whole, i);
  for (; i < count; ++i) each(one, i);
}

// Multiplying by a factor of 1 changes nothing but the payload of a NaN.
template <class From, class To>
HWY_INLINE void convert(const std::uint8_t* from, float factor, std::uint8_t* to,
                        std::size_t count) {
  each_vector(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto values = From::load(d, from + i * From::kBytes);
    To::store(d, hn::Mul(values, hn::Set(d, factor)), to + i * To::kBytes);
  });
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

// Magnitudes are compared as the integers that their bits are.
float largest(const float* values, std::size_t count) {
  const hn::ScalableTag<std::uint32_t> whole;
  auto most = hn::Zero(whole);
  std::uint32_t rest = 0;
  each_vector(count, [&](auto d, std::size_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> words_d;
    const auto loaded = Single::load(d, reinterpret_cast<const std::uint8_t*>(values + i));
    const auto magnitude = hn::BitCast(words_d, hn::Abs(loaded));
    const auto finite =
        hn::IfThenElseZero(hn::Lt(magnitude, hn::Set(words_d, 0x7F800000)), magnitude);
    if constexpr (hn::MaxLanes(words_d) == hn::MaxLanes(whole)) {
      most = hn::Max(most, finite);
    } else {
      rest = std::max(rest, hn::GetLane(finite));
    }
  });
  return std::bit_cast<float>(std::max(rest, hn::GetLane(hn::MaxOfLanes(whole, most))));
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(widen_all);
HWY_EXPORT(narrow_all);
HWY_EXPORT(largest);

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

float largest_finite(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(largest)(values.data(), values.size());
}

}  // namespace weft
#endif  // HWY_ONCE
