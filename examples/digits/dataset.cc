// Reading the CSV file strictly, and dividing its rows.
#include "examples/digits/dataset.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

namespace digits {
namespace {

constexpr int kDarkest = 16;  // dark cells of a 4 x 4 block

// Takes the next number off the line; nothing if there is none or it exceeds the largest allowed.
std::optional<int> take_number(std::string_view& line, int largest) {
  int value = -1;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc{} || value < 0 || value > largest) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  if (line.starts_with(',')) line.remove_prefix(1);
  return value;
}

// Appends one image; false if the line is not 64 pixels and a label.
bool append_image(std::string_view line, Dataset& data) {
  for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
    const auto dark = take_number(line, kDarkest);
    if (!dark) return false;
    data.pixels.push_back(static_cast<float>(*dark) / kDarkest);
  }
  const auto label = take_number(line, static_cast<int>(kClasses) - 1);
  if (!label || !line.empty()) return false;
  data.labels.push_back(static_cast<std::size_t>(*label));
  return true;
}

}  // namespace

weft::Result<Dataset> read_dataset(std::istream& stream) {
  Dataset data;
  std::string line;
  std::getline(stream, line);  // the header
  for (int number = 2; std::getline(stream, line); ++number) {
    if (!append_image(line, data)) {
      return weft::Status(
          weft::Code::invalid_argument,
          "line " + std::to_string(number) +
              ": expected 64 pixels from 0 to 16 and a digit, all separated by commas");
    }
  }
  if (data.size() == 0) return weft::Status(weft::Code::invalid_argument, "no image in the file");
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
