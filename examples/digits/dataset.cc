// Reading the CSV file strictly, and dividing its rows.
#include "examples/digits/dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "examples/shared/csv.h"

namespace digits {
namespace {

constexpr int kDarkest = 16;  // dark cells of a 4 x 4 block

// True for a whole number from 0 to `largest`.
bool is_count(double value, int largest) {
  return value >= 0 && value <= largest && value == std::floor(value);
}

// Appends one image; false if the row is not 64 pixels and a label.
bool append_image(std::span<const double> row, Dataset& data) {
  const double label = row[kPixels];
  for (const double dark : row.first(kPixels)) {
    if (!is_count(dark, kDarkest)) return false;
    data.pixels.push_back(static_cast<float>(dark) / kDarkest);
  }
  if (!is_count(label, static_cast<int>(kClasses) - 1)) return false;
  data.labels.push_back(static_cast<std::size_t>(label));
  return true;
}

}  // namespace

weft::Result<Dataset> read_dataset(std::istream& stream) {
  WEFT_ASSIGN(const examples::Table table, examples::read_csv(stream, kPixels + 1));
  Dataset data;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (!append_image(table.row(row), data)) {
      return examples::wrong_row(row, "64 pixels from 0 to 16 and a digit");
    }
  }
  return data;
}

Rows shuffled(Rows rows, std::uint64_t seed) {
  std::mt19937_64 random(
      seed);  // std::shuffle would give another order with another standard library
  for (std::size_t left = rows.size(); left > 1; --left) {
    std::swap(rows[left - 1], rows[random() % left]);
  }
  return rows;
}

Split split(std::size_t images, std::size_t one_in, std::uint64_t seed) {
  Rows all(images);
  std::iota(all.begin(), all.end(), std::size_t{0});
  all = shuffled(std::move(all), seed);
  const auto border = all.begin() + static_cast<std::ptrdiff_t>(images / one_in);
  return {Rows(border, all.end()), Rows(all.begin(), border)};
}

Rows share(const Rows& rows, int rank, int size) {
  Rows mine;
  for (auto row = static_cast<std::size_t>(rank); row < rows.size();
       row += static_cast<std::size_t>(size)) {
    mine.push_back(rows[row]);
  }
  return mine;
}

Batches::Batches(Rows rows, std::size_t batch, std::uint64_t seed)
    : rows_(shuffled(std::move(rows), seed)), batch_(std::min(batch, rows_.size())), seed_(seed) {}

std::span<const std::size_t> Batches::next() {
  if (begin_ + batch_ > rows_.size()) {
    rows_ = shuffled(std::move(rows_), ++seed_);
    begin_ = 0;
  }
  const auto batch = std::span(rows_).subspan(begin_, batch_);
  begin_ += batch_;
  return batch;
}

}  // namespace digits
