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
#include <utility>
#include <vector>

#include "engine/compress/compress.h"
#include "engine/kernels/kernels.h"

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
constexpr std::size_t kGroup = 64;  // cells with the same sign
static_assert(kInfinity % kGroup == 0);

std::size_t cell_of(float value) {
  return std::bit_cast<std::uint32_t>(value) >> 16;
}

// Cells of finite values in the order of these: number 0 is the most negative.
constexpr std::size_t kFinite = 2 * kInfinity;
constexpr std::size_t cell_at(std::size_t place) {
  return place < kInfinity ? kNegative + kInfinity - 1 - place : place - kInfinity;
}

// What the buckets are cut by: all values, or one out of each of kSample equal parts, at a place that does not
// repeat with the layout of the tensor.
std::span<const float> sample_of(std::span<const float> values, std::vector<float>& scratch) {
  if (values.size() <= kCountedWhole) return values;
  const std::size_t part = values.size() / kSample;
  std::uint32_t place = 0x9E3779B9;
  scratch.resize(kSample);
  for (std::size_t i = 0; i < kSample; ++i) {
    place = place * 1664525 + 1013904223;
    scratch[i] = values[i * part + (std::uint64_t{place} * part >> 32)];
  }
  return scratch;
}

// What is subtracted before a value gets its cell.
float center_of(std::span<const float> sample) {
  const Moments of = moments(sample);
  if (of.count == 0) return 0;
  const auto count = static_cast<double>(of.count);
  const double mean = of.sum / count;
  const double variance = std::max(0.0, of.squares / count - mean * mean);
  const bool is_far = mean * mean > kFarFromZero * kFarFromZero * variance;
  return is_far && std::abs(mean) < kLargestCenter ? static_cast<float>(mean) : 0.0F;
}

// The cell of a value, with a center and without one: most tensors have none.
struct Centered {
  float center;
  std::size_t operator()(float value) const { return cell_of(value - center); }
};
struct Uncentered {
  std::size_t operator()(float value) const { return cell_of(value); }
};

}  // namespace

// Most tensors use few of the cells, so groups of cells that have none are passed over.
struct Encoder::Cut {
  std::array<std::uint32_t, kCells> counts;        // of the sample, by cell; 0 between two sketches
  std::array<std::uint8_t, kCells / kGroup> used;  // whether a group of cells has any; the same
  std::array<std::uint8_t, kCells> codes;          // by cell
  std::array<std::uint32_t, kSketchCodes> members;  // of the sample, by code
  std::vector<float> sample;

  // Counts the sample; returns how much of it is finite.
  template <class CellOf>
  std::size_t count(std::span<const float> values, CellOf cell);
  // Cuts the counted cells into buckets.
  void cut(std::size_t counted);
  // The means of the buckets, and the codes of the values.
  template <class CellOf>
  void encode(std::span<const float> values, std::span<const float> sample, CellOf cell,
              std::byte* table, std::byte* codes_of_values);
};

template <class CellOf>
std::size_t Encoder::Cut::count(std::span<const float> values, CellOf cell_of) {
  for (const float value : values) {
    const std::size_t cell = cell_of(value);
    ++counts[cell];
    used[cell / kGroup] = 1;
  }
  std::size_t finite = values.size();
  for (const std::size_t first : {kInfinity, kNegative + kInfinity}) {
    for (std::size_t cell = first; cell < first + kNegative - kInfinity; ++cell)
      finite -= std::exchange(counts[cell], 0);
  }
  return finite;
}

// Cells are taken in the order of their values.
void Encoder::Cut::cut(std::size_t counted) {
  std::size_t left = counted;  // of the sample, not yet in a bucket that is closed
  std::size_t bucket = 0, held = 0, share = 0;
  const auto open = [&] { share = (left + kBuckets - bucket - 1) / (kBuckets - bucket); };
  const auto close = [&] {
    if (held == 0 || bucket + 1 == kBuckets) return;
    left -= held;
    held = 0;
    ++bucket;
    open();
  };
  const auto take = [&](std::size_t cell) {
    const std::size_t here = std::exchange(counts[cell], 0);
    const bool is_heavy = here != 0 && here >= 2 * share;
    if (is_heavy) close();
    codes[cell] = static_cast<std::uint8_t>(bucket);
    members[bucket] += static_cast<std::uint32_t>(here);
    held += here;
    if (here != 0 && (is_heavy || held >= share)) close();
  };
  members.fill(0);
  open();
  for (std::size_t place = 0; place < kFinite; place += kGroup) {
    const std::size_t group = cell_at(place) / kGroup;
    if (std::exchange(used[group], 0) == 0) {
      std::fill_n(codes.data() + group * kGroup, kGroup, static_cast<std::uint8_t>(bucket));
      continue;
    }
    for (std::size_t i = 0; i < kGroup; ++i) take(cell_at(place + i));
  }
  for (std::size_t cell = kInfinity; cell < kNegative; ++cell)
    codes[cell] = codes[kNegative + cell] = kNan;
  codes[kInfinity] = kHighest;
  codes[kNegative + kInfinity] = kLowest;
}

template <class CellOf>
void Encoder::Cut::encode(std::span<const float> values, std::span<const float> from,
                          CellOf cell_of, std::byte* table, std::byte* codes_of_values) {
  std::array<double, kSketchCodes> sums{};
  if (from.size() == values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint8_t code = codes[cell_of(values[i])];
      codes_of_values[i] = std::byte{code};
      sums[code] += values[i];
    }
  } else {
    for (const float value : from) sums[codes[cell_of(value)]] += value;
    for (std::size_t i = 0; i < values.size(); ++i)
      codes_of_values[i] = std::byte{codes[cell_of(values[i])]};
  }
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
}

Encoder::Encoder() = default;
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

void Encoder::sketch(std::span<const float> values, std::byte* table, std::byte* codes) {
  if (cut_ == nullptr) cut_ = std::make_unique<Cut>();
  const std::span<const float> sample = sample_of(values, cut_->sample);
  const float center = center_of(sample);
  const auto by = [&](auto cell_of) {
    cut_->cut(cut_->count(sample, cell_of));
    cut_->encode(values, sample, cell_of, table, codes);
  };
  if (center == 0) return by(Uncentered());
  by(Centered{center});
}

}  // namespace weft
