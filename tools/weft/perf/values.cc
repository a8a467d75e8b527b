// A cheap hash for the inputs; the reference a block of elements at a time, in double precision.
#include "tools/weft/perf/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "engine/half/half.h"

namespace weft {
namespace {

constexpr std::size_t kBlock = 1024;

// -128…127. Plain 32-bit arithmetic, so that the compiler vectorizes the loops around it.
std::int32_t hashed(std::uint32_t seed, std::uint32_t element) {
  std::uint32_t h = (element + seed) * 0x9E3779B1U;
  h ^= h >> 15;
  h *= 0x85EBCA6BU;
  return static_cast<std::int32_t>(h) >> 24;
}

std::uint32_t seed_of(Rank rank, std::uint64_t lap) {
  return (static_cast<std::uint32_t>(rank) * 7919U + static_cast<std::uint32_t>(lap)) * 0xC2B2AE35U;
}

// How one type holds a number. kSpacing: the relative distance of neighboring values; kUnit: what
// one step of hashed() is worth; kCut: how many of its bits are left out, so that the type has all numbers.
template <class T>
struct Plain {
  using Stored = T;
  static constexpr int kCut = 0;
  static constexpr double kSpacing =
      std::is_integral_v<T> ? 0 : static_cast<double>(std::numeric_limits<T>::epsilon());
  static constexpr double kUnit = std::is_integral_v<T> ? 1 : 1.0 / 64;
  static Stored encode(std::int32_t v) { return static_cast<T>(static_cast<T>(v) * T(kUnit)); }
  static double decode(Stored v) { return static_cast<double>(v); }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  static constexpr int kCut = 0;
  static constexpr double kSpacing = 1.0 / 128;
  static constexpr double kUnit = 1.0 / 64;
  static Stored encode(std::int32_t v) {
    return static_cast<Stored>(std::bit_cast<std::uint32_t>(static_cast<float>(v) / 64) >> 16);
  }
  static double decode(Stored v) {
    return double{std::bit_cast<float>(static_cast<std::uint32_t>(v) << 16)};
  }
};

struct Float16 {
  using Stored = std::uint16_t;
  static constexpr int kCut = 0;
  static constexpr double kSpacing = 1.0 / 1024;
  static constexpr double kUnit = 1.0 / 64;
  // Exact and never subnormal for our values: the sign, the exponent rebiased, the mantissa cut.
  static Stored encode(std::int32_t v) {
    if (v == 0) return 0;
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(v) / 64);
    return static_cast<Stored>((bits >> 16 & 0x8000U) |
                               ((bits & 0x7FFFFFFFU) - (112U << 23)) >> 13);
  }
  static double decode(Stored v) {
    const int exponent = v >> 10 & 31;
    const double mantissa = (v & 1023) / 1024.0;
    const double size =
        exponent == 0 ? std::ldexp(mantissa, -14) : std::ldexp(1 + mantissa, exponent - 15);
    return (v & 0x8000) != 0 ? -size : size;
  }
};

// -8…7 is exact in both.
template <std::uint8_t (*kNarrow)(float), float (*kWiden)(std::uint8_t), int kMantissaBits>
struct Float8 {
  using Stored = std::uint8_t;
  static constexpr int kCut = 4;
  static constexpr double kSpacing = 1.0 / (1 << kMantissaBits);
  static constexpr double kUnit = 1;
  static Stored encode(std::int32_t v) { return kNarrow(static_cast<float>(v)); }
  static double decode(Stored v) { return double{kWiden(v)}; }
};

template <class Visit>
auto with_format(DataType type, Visit visit) {
  switch (type) {
    case DataType::f16:
      return visit(Float16{});
    case DataType::bf16:
      return visit(Bfloat16{});
    case DataType::f64:
      return visit(Plain<double>{});
    case DataType::bytes:
      return visit(Plain<std::int8_t>{});
    case DataType::e4m3:
      return visit(Float8<e4m3_from_f32, f32_from_e4m3, 3>{});
    case DataType::e5m2:
      return visit(Float8<e5m2_from_f32, f32_from_e5m2, 2>{});
    case DataType::i16:
      return visit(Plain<std::int16_t>{});
    case DataType::i32:
      return visit(Plain<std::int32_t>{});
    case DataType::i64:
      return visit(Plain<std::int64_t>{});
    default:
      return visit(Plain<float>{});
  }
}

// What a block should be, and how far a result may be from it.
struct Reference {
  std::array<double, kBlock> value;
  std::array<double, kBlock> size;  // sum of the terms' magnitudes
};

template <class Format>
void refer(Reference& reference, std::span<const Recipe::Source> sources, std::uint64_t lap,
           std::size_t first, std::size_t count) {
  reference.value.fill(0);
  reference.size.fill(0);
  for (const Recipe::Source& source : sources) {
    const std::uint32_t seed = seed_of(source.rank, lap);
    const auto start = static_cast<std::uint32_t>(first);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t drawn =
          hashed(seed, start + static_cast<std::uint32_t>(i)) >> Format::kCut;
      const double term = source.weight * Format::kUnit * drawn;
      reference.value[i] += term;
      reference.size[i] += std::abs(term);
    }
  }
}

// `offset`: of the inputs' elements that are used.
template <class Format>
Status compare_part(const void* got, std::size_t offset, std::size_t count,
                    std::span<const Recipe::Source> sources, Rank rank, std::uint64_t lap) {
  // Each term and each addition rounds once, and so does the result.
  const double tolerance = Format::kSpacing * static_cast<double>(sources.size() + 1);
  const auto* stored = static_cast<const typename Format::Stored*>(got);
  Reference reference;
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t now = std::min(kBlock, count - first);
    refer<Format>(reference, sources, lap, offset + first, now);
    for (std::size_t i = 0; i < now; ++i) {
      const double value = Format::decode(stored[first + i]);
      if (std::abs(value - reference.value[i]) <= tolerance * reference.size[i]) continue;
      return Status(Code::mismatch,
                    fmt::format("rank {}: element {} is {}, expected {} (lap {})", rank, first + i,
                                value, reference.value[i], lap),
                    rank);
    }
  }
  return {};
}

}  // namespace

void fill(DataType type, void* to, std::size_t count, Rank rank, std::uint64_t lap) {
  const std::uint32_t seed = seed_of(rank, lap);
  with_format(type, [&]<class Format>(Format) {
    auto* stored = static_cast<typename Format::Stored*>(to);
    for (std::size_t i = 0; i < count; ++i) {
      stored[i] = Format::encode(hashed(seed, static_cast<std::uint32_t>(i)) >> Format::kCut);
    }
  });
}

Status compare(DataType type, const void* got, std::size_t count, const Recipe& recipe, Rank rank,
               std::uint64_t lap) {
  std::vector<Recipe::Source> sources = recipe.sources;
  if (!is_floating(type)) {
    for (Recipe::Source& source : sources) source.weight = 1;
  }
  if (sources.empty()) return {};
  const std::size_t offset = recipe.blocks == 1 ? 0 : static_cast<std::size_t>(rank) * count;
  return with_format(type, [&]<class Format>(Format) -> Status {
    if (!recipe.concatenates) return compare_part<Format>(got, offset, count, sources, rank, lap);
    const auto* part = static_cast<const typename Format::Stored*>(got);
    for (const Recipe::Source& source : sources) {
      WEFT_RETURN_IF_ERROR(compare_part<Format>(part, offset, count, {&source, 1}, rank, lap));
      part += count;
    }
    return {};
  });
}

}  // namespace weft
