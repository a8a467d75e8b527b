// facts: what is asked of an f32 array as a whole.
// Compiled once per instruction set by including itself through Highway's foreach_target.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>

#include "engine/kernels/kernels.h"
#include "engine/kernels/targets.h"

// foreach_target.h comes before everything that is compiled per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/facts.cc"
#include "hwy/foreach_target.h"
#include "engine/kernels/formats-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {

using Single = Plain<float>;

const std::uint8_t* bytes_of(const float* values) {
  return reinterpret_cast<const std::uint8_t*>(values);
}

template <class D>
HWY_INLINE hn::Mask<D> is_finite(D d, hn::Vec<D> v) {
  return hn::Le(hn::Abs(v), hn::Set(d, std::numeric_limits<float>::max()));
}

float largest(const float* values, std::size_t count) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  auto most = hn::Zero(d);
  auto rest = hn::Zero(one);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto v = Single::load(d, bytes_of(values + i));
    most = hn::Max(most, hn::IfThenElseZero(is_finite(d, v), hn::Abs(v)));
  }
  for (; i < count; ++i) {
    const auto v = Single::load(one, bytes_of(values + i));
    rest = hn::Max(rest, hn::IfThenElseZero(is_finite(one, v), hn::Abs(v)));
  }
  return std::max(hn::GetLane(rest), hn::GetLane(hn::MaxOfLanes(d, most)));
}

// A fixed number of sums, whatever a vector holds, so that the bits are the same on every machine. Squares of
// f32 are exact in f64.
class Sums {
 public:
  static constexpr std::size_t kWidth = 16;

  HWY_INLINE void add(const float* values) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      const auto v = Single::load(Floats(), bytes_of(values + k * hn::Lanes(kDoubles)));
      const auto finite = is_finite(Floats(), v);
      const auto wide = hn::PromoteTo(kDoubles, hn::IfThenElseZero(finite, v));
      sums_[k] = hn::Add(sums_[k], wide);
      squares_[k] = hn::Add(squares_[k], hn::Mul(wide, wide));
      count_ += hn::CountTrue(Floats(), finite);
    }
  }
  [[nodiscard]] Moments total() const { return {sum_of(sums_), sum_of(squares_), count_}; }

 private:
  static constexpr hn::CappedTag<double, kWidth / 2> kDoubles{};
  using Floats = hn::Rebind<float, hn::CappedTag<double, kWidth / 2>>;
  static constexpr std::size_t kVectors = kWidth / hn::MaxLanes(kDoubles);
  using V = hn::Vec<hn::CappedTag<double, kWidth / 2>>;

  static double sum_of(const V (&vectors)[kVectors]) {
    HWY_ALIGN double lanes[kWidth];
    for (std::size_t k = 0; k < kVectors; ++k)
      hn::Store(vectors[k], kDoubles, lanes + k * hn::Lanes(kDoubles));
    return std::accumulate(lanes, lanes + kWidth, 0.0);
  }

  V sums_[kVectors] = {};
  V squares_[kVectors] = {};
  std::size_t count_ = 0;
};

Moments all_moments(const float* values, std::size_t count) {
  Sums sums;
  std::size_t i = 0;
  for (; i + Sums::kWidth <= count; i += Sums::kWidth) sums.add(values + i);
  std::array<float, Sums::kWidth> rest;
  rest.fill(std::numeric_limits<float>::quiet_NaN());
  std::copy(values + i, values + count, rest.begin());
  sums.add(rest.data());
  return sums.total();
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(largest);
HWY_EXPORT(all_moments);

float largest_finite(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(largest)(values.data(), values.size());
}

Moments moments(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(all_moments)(values.data(), values.size());
}

}  // namespace weft
#endif  // HWY_ONCE
