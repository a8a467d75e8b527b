// The loop over elements and terms, for any format and operation. It processes blocks of vectors
// first, and the rest with smaller and smaller vectors, down to one element, by the same operation.
// No element is read or written twice, so the destination may be one of the terms, and nothing
// outside of the arrays is touched. The file is compiled once per instruction set (Highway's
// foreach_target), which explains the unusual include guard.
#include <cstddef>
#include <cstdint>
#include <limits>

#include "engine/kernels/formats-inl.h"
#include "engine/kernels/kernels.h"
#include "engine/kernels/operations-inl.h"
#include "hwy/cache_control.h"

#if defined(WEFT_KERNELS_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_LOOP_INL_H_
#undef WEFT_KERNELS_LOOP_INL_H_
#else
#define WEFT_KERNELS_LOOP_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {

// The terms, if their number is known at compile time: a copy that fits in registers.
template <std::size_t kTerms>
class Terms {
 public:
  HWY_INLINE Terms(std::span<const Term> terms, double divisor) : divisor_(divisor) {
    for (std::size_t t = 0; t < kTerms; ++t) {
      data_[t] = static_cast<const std::uint8_t*>(terms.data()[t].data);
      weight_[t] = terms.data()[t].weight;
    }
  }
  HWY_INLINE std::size_t size() const { return kTerms; }
  HWY_INLINE const std::uint8_t* data(std::size_t t) const { return data_[t]; }
  HWY_INLINE double weight(std::size_t t) const { return weight_[t]; }
  HWY_INLINE double divisor() const { return divisor_; }

 private:
  const std::uint8_t* data_[kTerms];
  double weight_[kTerms];
  double divisor_;
};

// Any number of terms: a reference to the caller's array.
inline constexpr std::size_t kAny = 0;
template <>
class Terms<kAny> {
 public:
  HWY_INLINE Terms(std::span<const Term> terms, double divisor)
      : terms_(terms.data()), size_(terms.size()), divisor_(divisor) {}
  HWY_INLINE std::size_t size() const { return size_; }
  HWY_INLINE const std::uint8_t* data(std::size_t t) const {
    return static_cast<const std::uint8_t*>(terms_[t].data);
  }
  HWY_INLINE double weight(std::size_t t) const { return terms_[t].weight; }
  HWY_INLINE double divisor() const { return divisor_; }

 private:
  const Term* terms_;
  std::size_t size_;
  double divisor_;
};

// The result for the elements at byte `at`, as many as d has lanes.
template <class Format, class Operation, class D, std::size_t kTerms>
HWY_INLINE hn::Vec<D> reduce(D d, const Terms<kTerms>& terms, std::size_t at) {
  auto total = Operation::first(d, terms.weight(0), Format::load(d, terms.data(0) + at));
  for (std::size_t t = 1; t < terms.size(); ++t) {
    total = Operation::next(d, total, terms.weight(t), Format::load(d, terms.data(t) + at));
  }
  return Operation::last(d, total, terms.divisor());
}

// Processes the bytes [at, end), fewer than a vector of tag `d`, with vectors of half the size.
template <class Format, class Operation, class D>
HWY_INLINE void partial_vectors(D d, const Terms<kAny>& terms, std::uint8_t* destination,
                                std::size_t at, std::size_t end) {
  if constexpr (hn::MaxLanes(d) > 1) {
    const hn::Half<D> half;
    const std::size_t step = hn::Lanes(half) * Format::kBytes;
    if (end - at >= step) {
      Format::store(half, reduce<Format, Operation>(half, terms, at), destination + at);
      at += step;
    }
    partial_vectors<Format, Operation>(half, terms, destination, at, end);
  }
}

// Processes the few bytes [at, end): vector by vector, then with smaller vectors. It is one function
// for any number of terms, as it is most of the code of a kernel.
template <class Format, class Operation>
HWY_NOINLINE void few(std::span<const Term> terms, double divisor, std::uint8_t* destination,
                      std::size_t at, std::size_t end) {
  const hn::ScalableTag<typename Format::Lane> d;
  const Terms<kAny> any(terms, divisor);
  const std::size_t step = hn::Lanes(d) * Format::kBytes;
  for (; end - at >= step; at += step) {
    Format::store(d, reduce<Format, Operation>(d, any, at), destination + at);
  }
  partial_vectors<Format, Operation>(d, any, destination, at, end);
}

// The CPU prefetches two or three streams of data by itself, and there a prefetch instruction costs
// more than it saves. It does not follow many streams. Prefetching this far ahead then makes 16-bit
// types up to twice as fast. It makes f32 a tenth faster if the data fit in the last-level cache,
// and a sixth slower if they are a little larger (Zen 5, 8 terms).
inline constexpr std::size_t kPrefetchBytes = 1024;
inline constexpr std::size_t kLineBytes = 64;

template <std::size_t kTerms>
HWY_INLINE void prefetch(const std::uint8_t* from, std::size_t bytes) {
  if constexpr (kTerms == kAny) {
    for (std::size_t line = 0; line < bytes; line += kLineBytes) {
      hwy::Prefetch(from + kPrefetchBytes + line);
    }
  }
}

// Processes kPairs pairs of vectors from byte `at`, with the terms in the outer loop. This hides
// the latency of the arithmetic, and loads each term's pointer and weight once for all pairs.
template <class Format, class Operation, std::size_t kPairs, class D, std::size_t kTerms>
HWY_INLINE void block(D d, const Terms<kTerms>& terms, std::uint8_t* destination, std::size_t at,
                      StoreKind store) {
  using V = hn::Vec<D>;
  const std::size_t pair = 2 * hn::Lanes(d) * Format::kBytes;
  V total[2 * kPairs];
  for (std::size_t p = 0; p < kPairs; ++p) {
    V a, b;
    Format::load_pair(d, terms.data(0) + at + p * pair, a, b);
    total[2 * p] = Operation::first(d, terms.weight(0), a);
    total[2 * p + 1] = Operation::first(d, terms.weight(0), b);
  }
  for (std::size_t t = 1; t < terms.size(); ++t) {
    prefetch<kTerms>(terms.data(t) + at, kPairs * pair);
    for (std::size_t p = 0; p < kPairs; ++p) {
      V a, b;
      Format::load_pair(d, terms.data(t) + at + p * pair, a, b);
      total[2 * p] = Operation::next(d, total[2 * p], terms.weight(t), a);
      total[2 * p + 1] = Operation::next(d, total[2 * p + 1], terms.weight(t), b);
    }
  }
  for (V& each : total) each = Operation::last(d, each, terms.divisor());
  std::uint8_t* const to = destination + at;
  if (store == StoreKind::streaming) {
    for (std::size_t p = 0; p < kPairs; ++p)
      Format::stream_pair(d, total[2 * p], total[2 * p + 1], to + p * pair);
  } else {
    for (std::size_t p = 0; p < kPairs; ++p)
      Format::store_pair(d, total[2 * p], total[2 * p + 1], to + p * pair);
  }
}

template <class Format, class Operation, std::size_t kPairs, class D, std::size_t kTerms>
HWY_INLINE std::size_t blocks(D d, const Terms<kTerms>& terms, std::uint8_t* destination,
                              std::size_t at, std::size_t end, StoreKind store) {
  const std::size_t step = kPairs * 2 * hn::Lanes(d) * Format::kBytes;
  for (; end - at >= step; at += step) {
    block<Format, Operation, kPairs>(d, terms, destination, at, store);
  }
  return at;
}

// Processes blocks from byte `at` on, as long as they fit before `end`, and returns where it
// stopped. With many terms a block is larger, so that more is read from each term at a time: long
// sequential reads are faster.
template <class Format, class Operation, class D, std::size_t kTerms>
HWY_INLINE std::size_t many(D d, const Terms<kTerms>& terms, std::uint8_t* destination,
                            std::size_t at, std::size_t end, StoreKind store) {
  if constexpr (kTerms == kAny) {
    at = blocks<Format, Operation, 4>(d, terms, destination, at, end, store);
  }
  return blocks<Format, Operation, 2>(d, terms, destination, at, end, store);
}

// How many bytes there are before the first address to which vectors can be streamed, which have to be aligned. The most
// that there can be: there is none.
template <class Format, class D>
HWY_INLINE std::size_t before_streams(D d, const std::uint8_t* destination) {
  const std::size_t alignment = hn::Lanes(d) * sizeof(typename Format::Lane);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(destination) % alignment;
  const std::size_t head = (alignment - past) % alignment;
  return head % Format::kBytes == 0 ? head : std::numeric_limits<std::size_t>::max();
}

// Stores that bypass the caches begin behind ordinary ones and end with a fence.
template <class Format, class Operation, std::size_t kTerms>
HWY_INLINE void combine_known(std::span<const Term> terms, void* destination, std::size_t count,
                              StoreKind store, double divisor) {
  const hn::ScalableTag<typename Format::Lane> d;
  auto* const to = static_cast<std::uint8_t*>(destination);
  const std::size_t end = count * Format::kBytes;
  std::size_t at = 0;
  if (store == StoreKind::streaming) {
    const std::size_t head = before_streams<Format>(d, to);
    if (head > end) {
      store = StoreKind::cached;
    } else {
      few<Format, Operation>(terms, divisor, to, 0, head);
      at = head;
    }
  }
  at = many<Format, Operation>(d, Terms<kTerms>(terms, divisor), to, at, end, store);
  if (store == StoreKind::streaming) hwy::FlushStream();
  if (at != end) few<Format, Operation>(terms, divisor, to, at, end);
}

// A CombineFunction. Two and three terms (this rank and one or two neighbors) are the most common.
// With code of their own they are up to 1.5 times as fast while the data are in the nearest cache.
template <class Format, class Operation>
void combine_all(std::span<const Term> terms, void* destination, std::size_t count, StoreKind store,
                 double divisor) {
  switch (terms.size()) {
    case 0:
      return invariant(false, "combine needs a term");
    case 2:
      return combine_known<Format, Operation, 2>(terms, destination, count, store, divisor);
    case 3:
      return combine_known<Format, Operation, 3>(terms, destination, count, store, divisor);
    default:
      return combine_known<Format, Operation, kAny>(terms, destination, count, store, divisor);
  }
}

// Weighted sums that are not divided have code of their own, because a division takes as long as many
// additions.
template <class Format>
void combine_weighted(std::span<const Term> terms, void* destination, std::size_t count,
                      StoreKind store, double divisor) {
  if (divisor == 1.0) {
    combine_all<Format, WeightedSum>(terms, destination, count, store, divisor);
  } else if constexpr (Format::kBytes < sizeof(typename Format::Lane)) {
    combine_all<Format, ScaledSum>(terms, destination, count, store, 1.0 / divisor);
  } else {
    combine_all<Format, DividedSum>(terms, destination, count, store, divisor);
  }
}

// The reductions that floating types have.
template <class Format>
CombineFunction floating_function(Reduction reduction) {
  switch (reduction) {
    case Reduction::weighted_sum:
      return &combine_weighted<Format>;
    case Reduction::sum:
      return &combine_all<Format, Sum>;
    case Reduction::min:
      return &combine_all<Format, Minimum>;
    case Reduction::max:
      return &combine_all<Format, Maximum>;
    case Reduction::product:
      return &combine_all<Format, Product>;
    default:
      return nullptr;
  }
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // WEFT_KERNELS_LOOP_INL_H_
