// bodies: what the kernels compute, element by element. One text for two compilers: nvcc makes kernels
// of it (kernels.cu), and the host compiler makes what the tests' driver runs in their place. The
// promises are those of engine/kernels: the bits are the same on a CPU and on every GPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/half/half.h"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#define WEFT_BOTH __host__ __device__ __forceinline__
#else
#define WEFT_BOTH inline
#endif

namespace weft::gpu {

// Arguments of a kernel travel with its launch: 4 KiB at most.
inline constexpr unsigned kMostTerms = 128;
struct CombineArguments {
  const void* data[kMostTerms];
  double weights[kMostTerms];
  void* destination;
  std::uint64_t count;
  double divisor;  // of a weighted sum
  std::uint32_t terms;
};

inline constexpr unsigned kMostCopies = 120;
struct CopyArguments {
  const void* from[kMostCopies];
  void* to[kMostCopies];
  std::uint64_t bytes[kMostCopies];
  std::uint32_t copies;
};

struct CastArguments {
  const void* from;
  void* to;
  std::uint64_t count;
};

// Elements in memory, and the values that the arithmetic is done with.
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static WEFT_BOTH Value widen(Stored x) { return x; }
  static WEFT_BOTH Stored narrow(Value x) { return x; }
};
struct F16 {
  using Stored = std::uint16_t;
  using Value = float;
#if defined(__CUDA_ARCH__)
  static WEFT_BOTH Value widen(Stored x) {
    return __half2float(__ushort_as_half(x));
  }
  static WEFT_BOTH Stored narrow(Value x) {
    return __half_as_ushort(__float2half_rn(x));
  }
#else
  static WEFT_BOTH Value widen(Stored x) {
    return f32_from_f16(x);
  }
  static WEFT_BOTH Stored narrow(Value x) {
    return f16_from_f32(x);
  }
#endif
};
struct Bf16 {
  using Stored = std::uint16_t;
  using Value = float;
#if defined(__CUDA_ARCH__)
  static WEFT_BOTH Value widen(Stored x) {
    return __uint_as_float(std::uint32_t{x} << 16);
  }
  static WEFT_BOTH Stored narrow(Value x) {
    const std::uint32_t bits = __float_as_uint(x);
    if (x != x) return static_cast<Stored>((bits >> 16) | 0x40);
    return static_cast<Stored>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  }
#else
  static WEFT_BOTH Value widen(Stored x) {
    return f32_from_bf16(x);
  }
  static WEFT_BOTH Stored narrow(Value x) {
    return bf16_from_f32(x);
  }
#endif
};

// Of the 8-bit types CUDA and the host have the same text.
struct Fp8E4m3 {
  using Stored = std::uint8_t;
  using Value = float;
  static WEFT_BOTH Value widen(Stored x) { return f32_from_e4m3(x); }
  static WEFT_BOTH Stored narrow(Value x) { return e4m3_from_f32(x); }
};
struct Fp8E5m2 {
  using Stored = std::uint8_t;
  using Value = float;
  static WEFT_BOTH Value widen(Stored x) { return f32_from_e5m2(x); }
  static WEFT_BOTH Stored narrow(Value x) { return e5m2_from_f32(x); }
};

// The first term, how another one is added, and what becomes of the result.
struct Undivided {
  template <typename V>
  static WEFT_BOTH V last(V total, double) {
    return total;
  }
  static WEFT_BOTH float last_of_narrow(float total, double) { return total; }
};
struct WeightedSum {
  template <typename V>
  static WEFT_BOTH V first(double weight, V x) {
    return static_cast<V>(weight) * x;
  }
  static WEFT_BOTH float next(float total, double weight, float x) {
    return fmaf(static_cast<float>(weight), x, total);
  }
  static WEFT_BOTH double next(double total, double weight, double x) {
    return fma(weight, x, total);
  }
  template <typename V>
  static WEFT_BOTH V last(V total, double divisor) {
    return divisor == 1.0 ? total : total / static_cast<V>(divisor);
  }
  // Of 16-bit and 8-bit types: what the factor's rounding changes is lost when the result is narrowed.
  static WEFT_BOTH float last_of_narrow(float total, double divisor) {
    return divisor == 1.0 ? total : total * static_cast<float>(1.0 / divisor);
  }
};
struct Unweighted : Undivided {
  template <typename V>
  static WEFT_BOTH V first(double, V x) {
    return x;
  }
};
// Integers wrap.
template <typename V>
inline constexpr bool kIsInteger = V(1) / V(2) == V(0);
struct Sum : Unweighted {
  template <typename V>
  static WEFT_BOTH V next(V total, double, V x) {
    if constexpr (kIsInteger<V>)
      return static_cast<V>(static_cast<std::uint64_t>(total) + static_cast<std::uint64_t>(x));
    else
      return total + x;
  }
};
struct Product : Unweighted {
  template <typename V>
  static WEFT_BOTH V next(V total, double, V x) {
    if constexpr (kIsInteger<V>)
      return static_cast<V>(static_cast<std::uint64_t>(total) * static_cast<std::uint64_t>(x));
    else
      return total * x;
  }
};
// NaN if any term is; of equal terms the bits of the later one.
struct Min : Unweighted {
  template <typename V>
  static WEFT_BOTH V next(V total, double, V x) {
    return total < x || total != total ? total : x;
  }
};
struct Max : Unweighted {
  template <typename V>
  static WEFT_BOTH V next(V total, double, V x) {
    return total > x || total != total ? total : x;
  }
};
struct BitAnd : Unweighted {
  template <typename V>
  static WEFT_BOTH V next(V total, double, V x) {
    return static_cast<V>(total & x);
  }
};
struct BitOr : Unweighted {
  template <typename V>
  static WEFT_BOTH V next(V total, double, V x) {
    return static_cast<V>(total | x);
  }
};
struct BitXor : Unweighted {
  template <typename V>
  static WEFT_BOTH V next(V total, double, V x) {
    return static_cast<V>(total ^ x);
  }
};

// What a thread of a GPU reads and writes at once.
inline constexpr unsigned kChunkBytes = 16;
template <typename Stored>
struct alignas(kChunkBytes) Chunk {
  Stored elements[kChunkBytes / sizeof(Stored)];
};

WEFT_BOTH bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % kChunkBytes == 0;
}

// What becomes of a total.
template <typename Format, typename Operation>
WEFT_BOTH typename Format::Value finish(typename Format::Value total, double divisor) {
  if constexpr (sizeof(typename Format::Stored) < sizeof(typename Format::Value))
    return Operation::last_of_narrow(total, divisor);
  else
    return Operation::last(total, divisor);
}

// The elements of `arguments` from index `first` on that fill a Block: a chunk, or one element.
template <typename Format, typename Operation, typename Block>
WEFT_BOTH void combine_block(const CombineArguments& arguments, std::uint64_t first) {
  using Stored = typename Format::Stored;
  using Value = typename Format::Value;
  constexpr unsigned kElements = sizeof(Block) / sizeof(Stored);
  const auto load = [&](std::uint32_t term) {
    return *reinterpret_cast<const Block*>(static_cast<const Stored*>(arguments.data[term]) +
                                           first);
  };
  Value totals[kElements];
  const Block of_first = load(0);
  for (unsigned i = 0; i < kElements; ++i)
    totals[i] = Operation::first(arguments.weights[0], Format::widen(of_first.elements[i]));
  for (std::uint32_t term = 1; term < arguments.terms; ++term) {
    const Block block = load(term);
    for (unsigned i = 0; i < kElements; ++i) {
      totals[i] =
          Operation::next(totals[i], arguments.weights[term], Format::widen(block.elements[i]));
    }
  }
  Block result;
  for (unsigned i = 0; i < kElements; ++i)
    result.elements[i] = Format::narrow(finish<Format, Operation>(totals[i], arguments.divisor));
  *reinterpret_cast<Block*>(static_cast<Stored*>(arguments.destination) + first) = result;
}
template <typename Stored>
struct One {
  Stored elements[1];
};

// Worker `worker` of `workers`: each takes every workers-th chunk, and then of what is left.
template <typename Format, typename Operation>
WEFT_BOTH void combine(const CombineArguments& arguments, std::uint64_t worker,
                       std::uint64_t workers) {
  using Stored = typename Format::Stored;
  constexpr unsigned kEach = kChunkBytes / sizeof(Stored);
  bool has_chunks = is_aligned(arguments.destination);
  for (std::uint32_t term = 0; term < arguments.terms; ++term)
    has_chunks = has_chunks && is_aligned(arguments.data[term]);
  const std::uint64_t chunks = has_chunks ? arguments.count / kEach : 0;
  for (std::uint64_t chunk = worker; chunk < chunks; chunk += workers)
    combine_block<Format, Operation, Chunk<Stored>>(arguments, chunk * kEach);
  for (std::uint64_t i = chunks * kEach + worker; i < arguments.count; i += workers)
    combine_block<Format, Operation, One<Stored>>(arguments, i);
}

// Copies of a batch: tensors into one message, or back.
WEFT_BOTH void copy(const CopyArguments& arguments, std::uint64_t worker, std::uint64_t workers) {
  for (std::uint32_t each = 0; each < arguments.copies; ++each) {
    const auto* const from = static_cast<const std::uint8_t*>(arguments.from[each]);
    auto* const to = static_cast<std::uint8_t*>(arguments.to[each]);
    const std::uint64_t bytes = arguments.bytes[each];
    using Block = Chunk<std::uint8_t>;
    const std::uint64_t chunks = is_aligned(from) && is_aligned(to) ? bytes / kChunkBytes : 0;
    for (std::uint64_t chunk = worker; chunk < chunks; chunk += workers) {
      *reinterpret_cast<Block*>(to + chunk * kChunkBytes) =
          *reinterpret_cast<const Block*>(from + chunk * kChunkBytes);
    }
    for (std::uint64_t i = chunks * kChunkBytes + worker; i < bytes; i += workers) to[i] = from[i];
  }
}

template <typename From, typename To>
WEFT_BOTH void cast(const CastArguments& arguments, std::uint64_t worker, std::uint64_t workers) {
  const auto* const from = static_cast<const typename From::Stored*>(arguments.from);
  auto* const to = static_cast<typename To::Stored*>(arguments.to);
  for (std::uint64_t i = worker; i < arguments.count; i += workers)
    to[i] = To::narrow(static_cast<typename To::Value>(From::widen(from[i])));
}

struct OccupyArguments {
  std::uint64_t nanoseconds;
};
// Does nothing for so long, for measurements of what runs beside it. A CPU that plays a GPU has no time
// for that.
WEFT_BOTH void occupy(const OccupyArguments& arguments, std::uint64_t, std::uint64_t) {
#if defined(__CUDA_ARCH__)
  const auto now = [] {
    std::uint64_t time = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
  };
  const std::uint64_t begin = now();
  while (now() - begin < arguments.nanoseconds) continue;
#else
  (void)arguments;
#endif
}

}  // namespace weft::gpu

// WEFT_KERNEL(name, function, Arguments) for every kernel.
#define WEFT_FLOATING_KERNELS(WEFT_KERNEL, type, Format)                                       \
  WEFT_KERNEL(combine_##type##_weighted_sum, (combine<Format, WeightedSum>), CombineArguments) \
  WEFT_KERNEL(combine_##type##_sum, (combine<Format, Sum>), CombineArguments)                  \
  WEFT_KERNEL(combine_##type##_min, (combine<Format, Min>), CombineArguments)                  \
  WEFT_KERNEL(combine_##type##_max, (combine<Format, Max>), CombineArguments)                  \
  WEFT_KERNEL(combine_##type##_product, (combine<Format, Product>), CombineArguments)
#define WEFT_INTEGER_KERNELS(WEFT_KERNEL, type, Format)                               \
  WEFT_KERNEL(combine_##type##_sum, (combine<Format, Sum>), CombineArguments)         \
  WEFT_KERNEL(combine_##type##_min, (combine<Format, Min>), CombineArguments)         \
  WEFT_KERNEL(combine_##type##_max, (combine<Format, Max>), CombineArguments)         \
  WEFT_KERNEL(combine_##type##_product, (combine<Format, Product>), CombineArguments) \
  WEFT_KERNEL(combine_##type##_bit_and, (combine<Format, BitAnd>), CombineArguments)  \
  WEFT_KERNEL(combine_##type##_bit_or, (combine<Format, BitOr>), CombineArguments)    \
  WEFT_KERNEL(combine_##type##_bit_xor, (combine<Format, BitXor>), CombineArguments)
#define WEFT_CASTS(WEFT_KERNEL, type, From)                                 \
  WEFT_KERNEL(cast_##type##_f16, (cast<From, F16>), CastArguments)          \
  WEFT_KERNEL(cast_##type##_bf16, (cast<From, Bf16>), CastArguments)        \
  WEFT_KERNEL(cast_##type##_e4m3, (cast<From, Fp8E4m3>), CastArguments)     \
  WEFT_KERNEL(cast_##type##_e5m2, (cast<From, Fp8E5m2>), CastArguments)     \
  WEFT_KERNEL(cast_##type##_f32, (cast<From, Plain<float>>), CastArguments) \
  WEFT_KERNEL(cast_##type##_f64, (cast<From, Plain<double>>), CastArguments)
#define WEFT_KERNELS(WEFT_KERNEL)                              \
  WEFT_FLOATING_KERNELS(WEFT_KERNEL, f16, F16)                 \
  WEFT_FLOATING_KERNELS(WEFT_KERNEL, bf16, Bf16)               \
  WEFT_FLOATING_KERNELS(WEFT_KERNEL, f32, Plain<float>)        \
  WEFT_FLOATING_KERNELS(WEFT_KERNEL, f64, Plain<double>)       \
  WEFT_FLOATING_KERNELS(WEFT_KERNEL, e4m3, Fp8E4m3)            \
  WEFT_FLOATING_KERNELS(WEFT_KERNEL, e5m2, Fp8E5m2)            \
  WEFT_INTEGER_KERNELS(WEFT_KERNEL, i8, Plain<std::int8_t>)    \
  WEFT_INTEGER_KERNELS(WEFT_KERNEL, u8, Plain<std::uint8_t>)   \
  WEFT_INTEGER_KERNELS(WEFT_KERNEL, i16, Plain<std::int16_t>)  \
  WEFT_INTEGER_KERNELS(WEFT_KERNEL, u16, Plain<std::uint16_t>) \
  WEFT_INTEGER_KERNELS(WEFT_KERNEL, i32, Plain<std::int32_t>)  \
  WEFT_INTEGER_KERNELS(WEFT_KERNEL, u32, Plain<std::uint32_t>) \
  WEFT_INTEGER_KERNELS(WEFT_KERNEL, i64, Plain<std::int64_t>)  \
  WEFT_INTEGER_KERNELS(WEFT_KERNEL, u64, Plain<std::uint64_t>) \
  WEFT_CASTS(WEFT_KERNEL, f16, F16)                            \
  WEFT_CASTS(WEFT_KERNEL, bf16, Bf16)                          \
  WEFT_CASTS(WEFT_KERNEL, f32, Plain<float>)                   \
  WEFT_CASTS(WEFT_KERNEL, f64, Plain<double>)                  \
  WEFT_CASTS(WEFT_KERNEL, e4m3, Fp8E4m3)                       \
  WEFT_CASTS(WEFT_KERNEL, e5m2, Fp8E5m2)                       \
  WEFT_KERNEL(copy, (copy), CopyArguments)                     \
  WEFT_KERNEL(occupy, (occupy), OccupyArguments)
