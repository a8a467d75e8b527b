// The arithmetic of each reduction on one vector. first() takes the first term, next() combines
// another term with the result so far, last() makes the result of what all terms gave. Lanes do not
// mix, so the bits of an element do not depend on
// its place in a vector. The file is compiled once per instruction set (Highway's foreach_target),
// which explains the unusual include guard.
#include <cmath>
#include <cstddef>

#include "engine/kernels/formats-inl.h"

#if defined(WEFT_KERNELS_OPERATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_OPERATIONS_INL_H_
#undef WEFT_KERNELS_OPERATIONS_INL_H_
#else
#define WEFT_KERNELS_OPERATIONS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {

// a * b + c, rounded once on every instruction set.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fused_multiply_add(D d, V a, V b, V c) {
  if constexpr (kEmulated) {
    using T = hn::TFromD<D>;
    HWY_ALIGN T x[hn::MaxLanes(d)];
    HWY_ALIGN T y[hn::MaxLanes(d)];
    HWY_ALIGN T z[hn::MaxLanes(d)];
    hn::Store(a, d, x);
    hn::Store(b, d, y);
    hn::Store(c, d, z);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) z[i] = std::fma(x[i], y[i], z[i]);
    return hn::Load(d, z);
  } else {
    static_assert(kEmulated || HWY_NATIVE_FMA, "the bits must be those of a fused multiply-add");
    return hn::MulAdd(a, b, c);
  }
}

// What is divided by nothing.
struct Undivided {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V last(D, V total, double) {
    return total;
  }
};

struct WeightedSum : Undivided {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V first(D d, double weight, V x) {
    return hn::Mul(hn::Set(d, static_cast<hn::TFromD<D>>(weight)), x);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V next(D d, V total, double weight, V x) {
    return fused_multiply_add(d, hn::Set(d, static_cast<hn::TFromD<D>>(weight)), x, total);
  }
};

struct DividedSum : WeightedSum {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V last(D d, V total, double divisor) {
    return hn::Div(total, hn::Set(d, static_cast<hn::TFromD<D>>(divisor)));
  }
};

// The same by a factor. What is narrower in memory loses the factor's rounding when it is narrowed.
struct ScaledSum : WeightedSum {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V last(D d, V total, double factor) {
    return hn::Mul(total, hn::Set(d, static_cast<hn::TFromD<D>>(factor)));
  }
};

// All other operations have no weights and start with the first term unchanged.
struct Unweighted : Undivided {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V first(D, double, V x) {
    return x;
  }
};

struct Sum : Unweighted {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V next(D, V total, double, V x) {
    return hn::Add(total, x);
  }
};

struct Product : Unweighted {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V next(D, V total, double, V x) {
    return hn::Mul(total, x);
  }
};

// Minimum and maximum are spelled out for floating types, because the instruction sets disagree
// about NaN.
struct Minimum : Unweighted {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V next(D, V total, double, V x) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::IfThenElse(hn::Or(hn::Lt(total, x), hn::IsNaN(total)), total, x);
    } else {
      return hn::Min(total, x);
    }
  }
};

struct Maximum : Unweighted {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V next(D, V total, double, V x) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::IfThenElse(hn::Or(hn::Gt(total, x), hn::IsNaN(total)), total, x);
    } else {
      return hn::Max(total, x);
    }
  }
};

struct BitAnd : Unweighted {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V next(D, V total, double, V x) {
    return hn::And(total, x);
  }
};

struct BitOr : Unweighted {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V next(D, V total, double, V x) {
    return hn::Or(total, x);
  }
};

struct BitXor : Unweighted {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V next(D, V total, double, V x) {
    return hn::Xor(total, x);
  }
};

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // WEFT_KERNELS_OPERATIONS_INL_H_
