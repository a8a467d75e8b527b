// sketch: how values are cut into buckets.
//
// The upper half of a float's bits (sign, exponent, 7 bits of mantissa) is its cell, of which there are
// 65,536. A bucket is a range of cells, so one lookup gives an element its code, without a search.
// Cells are finest around 0. Values that lie far from 0 and close together would share a few cells;
// their mean is therefore subtracted first.
//
// Buckets are filled in the order of the cells with an equal share of what is left of the sample. A cell
// that holds two shares by itself is a bucket of its own, whether the one before it is full or not: the
// two of them have two shares together, so the buckets suffice. Any other bucket holds less than three
// shares.
#include "engine/compress/sketch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/compress/compress.h"

namespace weft {
namespace {

constexpr std::size_t kCells = 1 << 16;
constexpr std::size_t kBuckets = kSketchCodes - 3;
constexpr std::uint8_t kLowest = kBuckets, kHighest = kBuckets + 1, kNan = kBuckets + 2;
constexpr std::size_t kCountedWhole = 1 << 16;
constexpr std::size_t kSample = 1 << 15;
// A mean is subtracted if it is so many standard deviations from 0, and so small that the difference of
// no value overflows.
constexpr double kFarFromZero = 4.0, kLargestCenter = 0x1p100;

constexpr std::size_t kNegative = kCells / 2;
constexpr std::size_t kInfinity = 0x7F80;

std::size_t cell_of(float value) {
  return std::bit_cast<std::uint32_t>(value) >> 16;
}

// Cells of finite values in the order of these: number 0 is the most negative.
constexpr std::size_t kFinite = 2 * kInfinity;
constexpr std::size_t cell_at(std::size_t place) {
  return place < kInfinity ? kNegative + kInfinity - 1 - place : place - kInfinity;
}

// Calls take(value) for what the buckets are cut by: all values, or one out of each of kSample equal parts,
// at a place that does not repeat with the layout of the tensor.
template <class Take>
void each_sample(std::span<const float> values, Take take) {
  if (values.size() <= kCountedWhole) {
    for (const float value : values) take(value);
    return;
  }
  const std::size_t part = values.size() / kSample;
  std::uint32_t place = 0x9E3779B9;
  for (std::size_t i = 0; i < kSample; ++i) {
    place = place * 1664525 + 1013904223;
    take(values[i * part + (std::uint64_t{place} * part >> 32)]);
  }
}

// What is subtracted before a value gets its cell.
float center_of(std::span<const float> values) {
  double sum = 0, squares = 0;
  std::size_t count = 0;
  each_sample(values, [&](float value) {
    if (!std::isfinite(value)) return;
    sum += value;
    squares += double{value} * value;
    ++count;
  });
  if (count == 0) return 0;
  const double mean = sum / static_cast<double>(count);
  const double variance = std::max(0.0, squares / static_cast<double>(count) - mean * mean);
  const bool is_far = mean * mean > kFarFromZero * kFarFromZero * variance;
  return is_far && std::abs(mean) < kLargestCenter ? static_cast<float>(mean) : 0.0F;
}

}  // namespace

struct Encoder::Cut {
  std::array<std::uint32_t, kCells> counts;  // of the sample, by cell
  std::array<std::uint8_t, kCells> codes;    // by cell

  // Counts the sample; returns how much of it is finite.
  std::size_t count(std::span<const float> values, float center);
  // Cuts the counted cells into buckets.
  void cut(std::size_t counted);
  [[nodiscard]] std::uint8_t code_of(float centered) const { return codes[cell_of(centered)]; }
};

std::size_t Encoder::Cut::count(std::span<const float> values, float center) {
  counts.fill(0);
  std::size_t finite = 0;
  each_sample(values, [&](float value) {
    const std::size_t cell = cell_of(value - center);
    ++counts[cell];
    finite += cell % kNegative < kInfinity ? 1 : 0;
  });
  return finite;
}

void Encoder::Cut::cut(std::size_t counted) {
  std::size_t left = counted;  // of the sample, not yet in a bucket that is closed
  std::size_t bucket = 0, held = 0;
  const auto share = [&] { return (left + kBuckets - bucket - 1) / (kBuckets - bucket); };
  const auto close = [&] {
    if (held == 0 || bucket + 1 == kBuckets) return;
    left -= held;
    held = 0;
    ++bucket;
  };
  for (std::size_t place = 0; place < kFinite; ++place) {
    const std::size_t cell = cell_at(place);
    const std::size_t here = counts[cell];
    const bool is_heavy = here != 0 && here >= 2 * share();
    if (is_heavy) close();
    codes[cell] = static_cast<std::uint8_t>(bucket);
    if (here == 0) continue;
    held += here;
    if (is_heavy || held >= share()) close();
  }
  for (std::size_t cell = kInfinity; cell < kNegative; ++cell)
    codes[cell] = codes[kNegative + cell] = kNan;
  codes[kInfinity] = kHighest;
  codes[kNegative + kInfinity] = kLowest;
}

Encoder::Encoder() = default;
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

void Encoder::sketch(std::span<const float> values, std::byte* table, std::byte* codes) {
  if (cut_ == nullptr) cut_ = std::make_unique<Cut>();
  const float center = center_of(values);
  cut_->cut(cut_->count(values, center));
  std::array<double, kSketchCodes> sums{};
  std::array<std::uint32_t, kSketchCodes> members{};
  each_sample(values, [&](float value) {
    const std::uint8_t code = cut_->code_of(value - center);
    sums[code] += value;
    ++members[code];
  });
  std::array<float, kSketchCodes> means{};
  for (std::size_t code = 0; code < kBuckets; ++code) {
    if (members[code] != 0) {
      means[code] = static_cast<float>(sums[code] / members[code]);
    } else if (code != 0) {
      means[code] = means[code - 1];  // of values beyond the sample
    }
  }
  means[kLowest] = -std::numeric_limits<float>::infinity();
  means[kHighest] = std::numeric_limits<float>::infinity();
  means[kNan] = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(table, means.data(), kSketchTable);
  for (std::size_t i = 0; i < values.size(); ++i)
    codes[i] = std::byte{cut_->code_of(values[i] - center)};
}

}  // namespace weft
