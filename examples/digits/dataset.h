// dataset: the handwritten digits as numbers, and who learns from which of them. Values and pure
// functions; equal seeds give equal results on every platform.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <span>
#include <vector>

#include "verbs/base/base.h"

namespace digits {

inline constexpr std::size_t kPixels = 64;  // 8 x 8
inline constexpr std::size_t kClasses = 10;

struct Dataset {
  std::vector<float> pixels;        // kPixels per image, 0 (white) to 1 (dark)
  std::vector<std::size_t> labels;  // one per image, below kClasses

  [[nodiscard]] std::size_t size() const { return labels.size(); }
  [[nodiscard]] std::span<const float> image(std::size_t row) const {
    return std::span(pixels).subspan(row * kPixels, kPixels);
  }
};

// Reads the format of examples/data/digits.csv. An error names the line.
weft::Result<Dataset> read_dataset(std::istream& stream);

using Rows = std::vector<std::size_t>;  // numbers of images

// The same rows in an order that only the seed decides.
[[nodiscard]] Rows shuffled(Rows rows, std::uint64_t seed);

struct Split {
  Rows training;
  Rows held_out;
};
// Holds out one image of `one_in`, chosen by the seed.
[[nodiscard]] Split split(std::size_t images, std::size_t one_in, std::uint64_t seed);

// What rank `rank` of `size` learns from: every size-th row, beginning with number `rank`.
[[nodiscard]] Rows share(const Rows& rows, int rank, int size);

// Walks through rows in mini-batches, in a new order in each round. A batch is never empty unless
// the rows are.
class Batches {
 public:
  Batches(Rows rows, std::size_t batch, std::uint64_t seed);
  // Valid until the next call.
  [[nodiscard]] std::span<const std::size_t> next();

 private:
  Rows rows_;
  std::size_t batch_;
  std::uint64_t seed_;
  std::size_t begin_ = 0;
};

}  // namespace digits
