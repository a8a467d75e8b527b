// How elements in memory become lanes of a vector and back. A format has
//   Lane                     the type in which the arithmetic is done,
//   kBytes                   bytes of an element in memory,
//   load(d, from)            as many elements as d has lanes, from any address,
//   store(d, v, to)          the reverse,
//   load_pair(d, from, a, b)   twice as many, into two vectors, in an order of its own,
//   store_pair(d, a, b, to)    the reverse,
//   stream_pair(d, a, b, to)   store_pair past the caches, to an address aligned to the size of d.
// The file is compiled once per instruction set (Highway's foreach_target), which explains the
// unusual include guard.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/half/half.h"
#include "engine/kernels/targets.h"
#include "hwy/highway.h"

#if defined(WEFT_KERNELS_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_FORMATS_INL_H_
#undef WEFT_KERNELS_FORMATS_INL_H_
#else
#define WEFT_KERNELS_FORMATS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// True in Highway's portable fallback. Its f16 conversions truncate, and its multiply-add is not
// fused. There the scalar functions of the language and of half.h are used instead, lane by lane.
inline constexpr bool kEmulated = HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128;

// Elements as they lie in memory, one per lane.
template <class T>
struct Plain {
  using Lane = T;
  static constexpr std::size_t kBytes = sizeof(T);

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint8_t* from) {
    if constexpr (hn::MaxLanes(d) * sizeof(T) < 16) {
      // Highway loads parts of a vector through T*, which has to be aligned; this has not.
      HWY_ALIGN T lanes[hn::MaxLanes(d)];
      std::memcpy(lanes, from, sizeof(lanes));
      return hn::Load(d, lanes);
    } else {
      return hn::LoadU(d, reinterpret_cast<const T*>(from));
    }
  }

  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, std::uint8_t* to) {
    if constexpr (hn::MaxLanes(d) * sizeof(T) < 16) {
      HWY_ALIGN T lanes[hn::MaxLanes(d)];
      hn::Store(v, d, lanes);
      std::memcpy(to, lanes, sizeof(lanes));
    } else {
      hn::StoreU(v, d, reinterpret_cast<T*>(to));
    }
  }

  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void load_pair(D d, const std::uint8_t* from, V& a, V& b) {
    a = load(d, from);
    b = load(d, from + hn::Lanes(d) * sizeof(T));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void store_pair(D d, V a, V b, std::uint8_t* to) {
    store(d, a, to);
    store(d, b, to + hn::Lanes(d) * sizeof(T));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void stream_pair(D d, V a, V b, std::uint8_t* to) {
    if constexpr (hn::MaxLanes(d) * sizeof(T) < 16) {
      store_pair(d, a, b, to);  // Highway would write 16 bytes all the same
    } else {
      hn::Stream(a, d, reinterpret_cast<T*>(to));
      hn::Stream(b, d, reinterpret_cast<T*>(to) + hn::Lanes(d));
    }
  }
};

// Elements that are narrower in memory than in the lanes. `Conversion` says how.
template <class Conversion>
struct Converted {
  using Lane = typename Conversion::Lane;
  using Memory = Plain<typename Conversion::Stored>;
  static constexpr std::size_t kBytes = Memory::kBytes;
  template <class D>
  using Narrow = hn::Rebind<typename Conversion::Stored, D>;

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint8_t* from) {
    return Conversion::widen(d, Memory::load(Narrow<D>(), from));
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, std::uint8_t* to) {
    Memory::store(Narrow<D>(), Conversion::narrow(d, v), to);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void load_pair(D d, const std::uint8_t* from, V& a, V& b) {
    a = load(d, from);
    b = load(d, from + hn::Lanes(d) * kBytes);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void store_pair(D d, V a, V b, std::uint8_t* to) {
    store(d, a, to);
    store(d, b, to + hn::Lanes(d) * kBytes);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void stream_pair(D d, V a, V b, std::uint8_t* to) {
    Memory::stream_pair(Narrow<D>(), Conversion::narrow(d, a), Conversion::narrow(d, b), to);
  }
};

struct Float16 {
  using Lane = float;
  using Stored = std::uint16_t;

  template <class D, class V>
  static HWY_INLINE hn::Vec<D> widen(D d, V half) {
    if constexpr (kEmulated) {
      HWY_ALIGN Stored bits[hn::MaxLanes(d)];
      HWY_ALIGN Lane lanes[hn::MaxLanes(d)];
      hn::Store(half, hn::Rebind<Stored, D>(), bits);
      for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = f32_from_f16(bits[i]);
      return hn::Load(d, lanes);
    } else {
      return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
    }
  }

  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<Stored, D>> narrow(D d, hn::Vec<D> v) {
    const hn::Rebind<Stored, D> narrow_d;
    if constexpr (kEmulated) {
      HWY_ALIGN Stored bits[hn::MaxLanes(d)];
      HWY_ALIGN Lane lanes[hn::MaxLanes(d)];
      hn::Store(v, d, lanes);
      for (std::size_t i = 0; i < hn::Lanes(d); ++i) bits[i] = f16_from_f32(lanes[i]);
      return hn::Load(narrow_d, bits);
    } else {
      return hn::BitCast(narrow_d, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
    }
  }
};

// An 8-bit type. It is widened as the f16 of a `Widening`, and narrowed as half.h's f8_from_f32().
template <class Form, class Widening>
struct Float8 {
  using Lane = float;
  using Stored = std::uint8_t;

  template <class D, class V>
  static HWY_INLINE hn::Vec<D> widen(D d, V bytes) {
    const hn::Rebind<std::uint16_t, D> halves_d;
    return Widening::finish(
        d, Float16::widen(d, Widening::half(halves_d, hn::PromoteTo(halves_d, bytes))));
  }

  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<Stored, D>> narrow(D d, hn::Vec<D> v) {
    using To = Narrowing<Form>;
    const hn::RebindToUnsigned<D> words_d;
    const auto set = [&](std::uint32_t bits) HWY_ATTR { return hn::Set(words_d, bits); };
    const auto bits = hn::BitCast(words_d, v);
    const auto sign = hn::And(hn::ShiftRight<24>(bits), set(0x80));
    const auto magnitude = hn::And(bits, set(0x7FFFFFFF));
    const auto shifter = set(To::kShifter);
    const auto fixed = hn::Sub(
        hn::BitCast(words_d, hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, shifter))), shifter);
    const auto rebiased = hn::Sub(magnitude, set(To::kRebias));
    const auto last_bit = hn::And(hn::ShiftRight<To::kDropped>(rebiased), set(1));
    const auto up = hn::Add(hn::Add(rebiased, set((1U << (To::kDropped - 1)) - 1)), last_bit);
    const auto rounded = hn::Min(hn::ShiftRight<To::kDropped>(up), set(Form::kOverflow));
    const auto number = hn::IfThenElse(hn::Lt(magnitude, set(To::kLeastNormal)), fixed, rounded);
    const auto result = hn::IfThenElse(hn::Gt(magnitude, set(0x7F800000)), set(Form::kNan), number);
    return hn::TruncateTo(hn::Rebind<Stored, D>(), hn::Or(sign, result));
  }
};

struct WideningOfE4m3 {
  template <class D, class V>
  static HWY_INLINE V half(D d, V byte) {
    const auto sign = hn::ShiftLeft<8>(hn::And(byte, hn::Set(d, 0x80)));
    return hn::Or(sign, hn::ShiftLeft<7>(hn::And(byte, hn::Set(d, 0x7F))));
  }
  // NaN is what would come after 448.
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V finish(D d, V v) {
    const V number = hn::Mul(v, hn::Set(d, kF16OfE4m3));
    return hn::IfThenElse(hn::Gt(hn::Abs(number), hn::Set(d, 448.0F)), hn::NaN(d), number);
  }
};
struct WideningOfE5m2 {
  template <class D, class V>
  static HWY_INLINE V half(D, V byte) {
    return hn::ShiftLeft<8>(byte);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V finish(D, V v) {
    return v;
  }
};
using Float8E4m3 = Converted<Float8<E4m3, WideningOfE4m3>>;
using Float8E5m2 = Converted<Float8<E5m2, WideningOfE5m2>>;

// bf16: the upper half of an f32. A pair is taken from one vector of words, of which each holds two
// elements: no lane has to move, which makes it 1.5 times as fast as Converted.
struct BFloat16 {
  using Lane = float;
  using Memory = Plain<std::uint16_t>;
  using Words = Plain<std::uint32_t>;
  static constexpr std::size_t kBytes = Memory::kBytes;
  static_assert(std::endian::native == std::endian::little,
                "the lower half is the earlier element");

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint8_t* from) {
    const hn::RebindToUnsigned<D> words_d;
    const auto halves = Memory::load(hn::Rebind<std::uint16_t, D>(), from);
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(words_d, halves)));
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, std::uint8_t* to) {
    const hn::Rebind<std::uint16_t, D> halves_d;
    Memory::store(halves_d, hn::TruncateTo(halves_d, hn::ShiftRight<16>(round(d, v))), to);
  }

  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void load_pair(D d, const std::uint8_t* from, V& a, V& b) {
    const hn::RebindToUnsigned<D> words_d;
    const auto words = Words::load(words_d, from);
    a = hn::BitCast(d, hn::ShiftLeft<16>(words));
    b = hn::BitCast(d, hn::And(words, hn::Set(words_d, 0xFFFF0000)));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void store_pair(D d, V a, V b, std::uint8_t* to) {
    Words::store(hn::RebindToUnsigned<D>(), round_pair(d, a, b), to);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void stream_pair(D d, V a, V b, std::uint8_t* to) {
    const hn::RebindToUnsigned<D> words_d;
    hn::Stream(round_pair(d, a, b), words_d, reinterpret_cast<std::uint32_t*>(to));
  }

 private:
  // bf16_from_f32() in vectors, its result in the upper half of each word. AVX-512 has an
  // instruction for this, which is not used because it flushes subnormals.
  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> round(D d, hn::Vec<D> v) {
    const hn::RebindToUnsigned<decltype(d)> words_d;
    const auto bits = hn::BitCast(words_d, v);
    const auto last_bit = hn::And(hn::ShiftRight<16>(bits), hn::Set(words_d, 1));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(words_d, 0x7FFF)), last_bit);
    const auto quiet_nan = hn::Or(bits, hn::Set(words_d, 0x00400000));
    return hn::IfThenElse(hn::RebindMask(words_d, hn::IsNaN(v)), quiet_nan, rounded);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> round_pair(D d, V a, V b) {
    const auto upper = hn::Set(hn::RebindToUnsigned<D>(), 0xFFFF0000);
    return hn::Or(hn::ShiftRight<16>(round(d, a)), hn::And(round(d, b), upper));
  }
};

// Bytes that are multiplied: CPUs multiply no vectors of bytes, and products modulo 2^32 have the
// right lowest byte.
struct ByteInWord {
  using Lane = std::uint32_t;
  using Stored = std::uint8_t;

  template <class D, class V>
  static HWY_INLINE hn::Vec<D> widen(D d, V byte) {
    return hn::PromoteTo(d, byte);
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<Stored, D>> narrow(D, hn::Vec<D> v) {
    return hn::TruncateTo(hn::Rebind<Stored, D>(), v);
  }
};

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // WEFT_KERNELS_FORMATS_INL_H_
