// kernels: the arithmetic on tensors. combine() reduces k arrays of one element type into one
// array, element by element, in the order in which the terms are given. It computes the sum,
// average, minimum and so on of a collective, and the weighted sum w_0 x_0 + w_1 x_1 + … of a
// neighbor_allreduce, in a single pass over memory.
//
// Free functions over memory of the caller; thread safe; nothing is allocated or kept. The
// instruction set is chosen at run time, so that one binary serves every x86.
//
// Promises:
// - The bits of an element depend only on its inputs, the weights and the order of the terms. They
//   do not depend on its index, the alignment, the count, how a caller cuts the work, how the
//   result is stored, or the machine. The only exception is a NaN, whose sign and payload are not
//   promised.
// - f32 and f64 accumulate in their own type: weight_0 * x_0 rounded, then one fused multiply-add
//   per term. f16, bf16, e4m3 and e5m2 accumulate in f32 in the same way and round once, to nearest, ties
//   to even. The weight is rounded to the type that accumulates. With all weights 1 the weighted sum
//   is the sum.
// - A weighted sum is divided by the divisor; narrower types than f32 are multiplied by its reciprocal,
//   rounded to f32. Of terms that are equal, and whose sum is exact, a mean (take_divisor()) is that number.
// - Integers wrap: sum and product are modulo 2^bits.
// - min and max of floating types give NaN if any term is NaN. +0 and -0 are equal. Of equal terms
//   the bits of the later one are taken.
// - The default floating-point environment is assumed (round to nearest, no flush to zero).
#pragma once

#include <weft/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

// How the k values of an element become one. An average is a weighted_sum. The
// values of this enum travel on the wire and are frozen.
enum class Reduction : std::uint8_t {
  weighted_sum = 0,
  sum = 1,
  min = 2,
  max = 3,
  product = 4,
  bit_and = 5,
  bit_or = 6,
  bit_xor = 7,
};
inline constexpr std::size_t kReductions = 8;

[[nodiscard]] std::string_view name(Reduction reduction);

// invalid_argument, naming both, for the pairs that have no meaning: weighted sums of integers, and
// bit operations on floating types, and anything of `bytes`. Every other pair is ok.
[[nodiscard]] Status check_reduction(DataType type, Reduction reduction);

// One input of a combine: `count` elements at data. The weight is used by weighted_sum alone.
struct Term {
  const void* data;
  double weight;
};

// How the result is written. `streaming` bypasses the caches. It saves reading the destination
// before it is overwritten, and keeps other data in the cache. Use it for outputs that are larger
// than the caches and not read soon. When combine() returns, streaming stores are ordered before
// every later store, as ordinary stores are. For small outputs the fence costs more (about 0.1 us)
// than streaming saves.
enum class StoreKind : std::uint8_t { cached, streaming };

// destination[i] = reduction over the terms of term[i], for i < count. At least one term. The
// destination may be identical to the data of one or more terms; else they must not overlap. No
// alignment is needed, not even that of the element. The divisor is used by weighted_sum alone.
using CombineFunction = void (*)(std::span<const Term> terms, void* destination, std::size_t count,
                                 StoreKind store, double divisor);

// The function for a pair that passes check_reduction(), chosen for this CPU. Look it up once, at
// setup: the result stays valid for ever, and a message of a few bytes then costs only a call
// through it.
[[nodiscard]] CombineFunction select_combine(DataType type, Reduction reduction);

// select_combine() and the call in one. Use it where a few nanoseconds do not matter.
void combine(DataType type, Reduction reduction, std::span<const Term> terms, void* destination,
             std::size_t count, StoreKind store = StoreKind::cached, double divisor = 1.0);

// Elements of f16, e4m3 or e5m2 at any address as f32, times a factor; and f32 times a factor rounded to such
// elements, to nearest, ties to even. A NaN stays one.
void widen(DataType type, const void* from, std::span<float> to, float factor = 1);
void narrow(DataType type, std::span<const float> from, void* to, float factor = 1);

// The largest magnitude of the values that are finite; 0 if none is.
[[nodiscard]] float largest_finite(std::span<const float> values);

// Sums over the values that are finite, with the same bits on every machine.
struct Moments {
  double sum = 0;
  double squares = 0;
  std::size_t count = 0;
};
[[nodiscard]] Moments moments(std::span<const float> values);

// A mean of k numbers as what rounds least: each is multiplied by a power of two, which is exact and
// keeps the sum as small as the numbers are, and the sum is divided. If k is a power of two, the
// weight is 1/k and the divisor 1.
struct Mean {
  double weight = 1.0;   // the largest power of two that is not above 1/k
  double divisor = 1.0;  // k * weight
};
[[nodiscard]] Mean mean_of(std::size_t k);
// If the weights of all k terms are 1/k, gives them the weight of mean_of(k), and returns its divisor.
// Else returns 1.
[[nodiscard]] double take_divisor(std::span<Term> terms);

}  // namespace weft
