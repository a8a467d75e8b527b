// The parabola, and digits by a network of 64, 32 and 10 units.
#include "tools/weft/strategies/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <random>
#include <sstream>
#include <vector>

#include "topology/text/text.h"

namespace weft {
namespace {

class Parabola : public Task {
 public:
  explicit Parabola(std::size_t size) : size_(size) {}
  [[nodiscard]] std::size_t size() const override { return size_; }
  [[nodiscard]] double rate() const override { return 0.1; }
  void first_model(std::span<float> model) const override { std::ranges::fill(model, 1.0F); }
  void slope(Rank rank, std::uint64_t /*step*/, std::span<const float> model,
             std::span<float> slope) const override {
    const float lowest = 2.0F + 0.1F * static_cast<float>(rank);
    for (std::size_t i = 0; i < model.size(); ++i) slope[i] = model[i] - lowest;
  }
  [[nodiscard]] std::optional<double> loss(std::span<const float>) const override { return {}; }
  [[nodiscard]] std::optional<double> accuracy(std::span<const float>) const override { return {}; }

 private:
  std::size_t size_;
};

constexpr std::size_t kMostFile = std::size_t{64} << 20;
constexpr std::size_t kPixels = 64;
constexpr std::size_t kHidden = 32;
constexpr std::size_t kClasses = 10;
constexpr std::size_t kBatch = 16;
constexpr std::size_t kHeldOutOneIn = 5;
constexpr std::uint64_t kSeed = 1;
// Rows of weights, each with its bias: of the hidden units, then of the classes.
constexpr std::size_t kFirst = kHidden * (kPixels + 1);
constexpr std::size_t kModel = kFirst + kClasses * (kHidden + 1);

struct Image {
  std::array<float, kPixels> pixels{};
  std::size_t label = 0;
};

// std::shuffle would give another order with another standard library.
template <typename T>
void shuffle(std::vector<T>& all, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t left = all.size(); left > 1; --left)
    std::swap(all[left - 1], all[random() % left]);
}

template <std::size_t kFrom, std::size_t kTo>
void layer(const float* rows, const std::array<float, kFrom>& from, std::array<float, kTo>& to) {
  for (std::size_t unit = 0; unit < kTo; ++unit) {
    const float* row = rows + unit * (kFrom + 1);
    float sum = row[kFrom];
    for (std::size_t i = 0; i < kFrom; ++i) sum += row[i] * from[i];
    to[unit] = sum;
  }
}

// Adds error x input to the slopes of a layer's rows.
template <std::size_t kFrom, std::size_t kTo>
void add(const std::array<float, kTo>& error, const std::array<float, kFrom>& from, float share,
         float* rows) {
  for (std::size_t unit = 0; unit < kTo; ++unit) {
    float* row = rows + unit * (kFrom + 1);
    for (std::size_t i = 0; i < kFrom; ++i) row[i] += share * error[unit] * from[i];
    row[kFrom] += share * error[unit];
  }
}

struct Answer {
  std::array<float, kHidden> hidden{};
  std::array<float, kClasses> probability{};
};

Answer answer(const float* model, const Image& image) {
  Answer found;
  layer(model, image.pixels, found.hidden);
  for (float& unit : found.hidden) unit = std::tanh(unit);
  layer(model + kFirst, found.hidden, found.probability);
  const float largest = *std::ranges::max_element(found.probability);
  float sum = 0;
  for (float& each : found.probability) sum += each = std::exp(each - largest);
  for (float& each : found.probability) each /= sum;
  return found;
}

class Digits : public Task {
 public:
  Digits(std::vector<Image> images, int ranks) : ranks_(static_cast<std::size_t>(ranks)) {
    shuffle(images, kSeed);
    const auto border = images.begin() + static_cast<std::ptrdiff_t>(images.size() / kHeldOutOneIn);
    held_out_.assign(images.begin(), border);
    learned_.assign(border, images.end());
  }
  [[nodiscard]] std::size_t size() const override { return kModel; }
  [[nodiscard]] double rate() const override { return 0.3; }
  void first_model(std::span<float> model) const override {
    std::mt19937_64 random(kSeed);
    for (float& each : model) {
      const double part = static_cast<double>(random() >> 11) * 0x1p-53;  // 0 to 1
      each = static_cast<float>((part - 0.5) * 0.5);
    }
  }
  // A rank goes through its share in a new order each time.
  void slope(Rank rank, std::uint64_t step, std::span<const float> model,
             std::span<float> slope) const override {
    const auto own = static_cast<std::size_t>(rank);
    std::vector<std::size_t> share;
    for (std::size_t i = own; i < learned_.size(); i += ranks_) share.push_back(i);
    const std::size_t batch = std::min(kBatch, share.size());
    const std::uint64_t batches = share.size() / batch;
    shuffle(share, kSeed + 1000 * (own + 1) + step / batches);
    std::ranges::fill(slope, 0.0F);
    for (std::size_t i = 0; i < batch; ++i)
      add_slope(learned_[share[step % batches * batch + i]], 1.0F / static_cast<float>(batch),
                model.data(), slope.data());
  }
  [[nodiscard]] std::optional<double> loss(std::span<const float> model) const override {
    double sum = 0;
    for (const Image& image : learned_)
      sum -= std::log(static_cast<double>(answer(model.data(), image).probability[image.label]));
    return sum / static_cast<double>(learned_.size());
  }
  [[nodiscard]] std::optional<double> accuracy(std::span<const float> model) const override {
    const auto right = std::ranges::count_if(held_out_, [&](const Image& image) {
      const auto found = answer(model.data(), image).probability;
      return std::ranges::max_element(found) - found.begin() ==
             static_cast<std::ptrdiff_t>(image.label);
    });
    return static_cast<double>(right) / static_cast<double>(held_out_.size());
  }

 private:
  static void add_slope(const Image& image, float share, const float* model, float* slope) {
    Answer found = answer(model, image);
    found.probability[image.label] -= 1;  // the errors of the classes
    add(found.probability, found.hidden, share, slope + kFirst);
    std::array<float, kHidden> error{};
    for (std::size_t unit = 0; unit < kHidden; ++unit) {
      for (std::size_t c = 0; c < kClasses; ++c)
        error[unit] += found.probability[c] * model[kFirst + c * (kHidden + 1) + unit];
      error[unit] *= 1 - found.hidden[unit] * found.hidden[unit];
    }
    add(error, image.pixels, share, slope);
  }

  std::vector<Image> learned_, held_out_;
  std::size_t ranks_;
};

// "0,0,5,…,7": whole numbers up to 16, and the label.
bool read_row(const std::string& line, Image& image) {
  const char* at = line.data();
  const char* const end = at + line.size();
  for (std::size_t column = 0; column <= kPixels; ++column) {
    unsigned value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    const bool is_last = column == kPixels;
    if (error != std::errc() || value > (is_last ? kClasses - 1 : 16)) return false;
    if (is_last ? rest != end : rest == end || *rest != ',') return false;
    if (is_last)
      image.label = value;
    else
      image.pixels[column] = static_cast<float>(value) / 16;
    at = rest + 1;
  }
  return true;
}

}  // namespace

std::unique_ptr<Task> make_parabola(std::size_t size) {
  return std::make_unique<Parabola>(size);
}

Result<std::unique_ptr<Task>> read_digits(const std::string& path, int ranks) {
  const auto wrong = [&](const std::string& why) {
    return Status(Code::invalid_argument, path + ": " + why);
  };
  Result<std::string> text = read_text(path, kMostFile);
  if (!text.ok()) return Status(Code::invalid_argument, std::string(text.status().text()));
  std::istringstream file(*std::move(text));
  std::string line;
  std::getline(file, line);  // the names of the columns
  std::vector<Image> images;
  while (std::getline(file, line)) {
    if (!read_row(line, images.emplace_back()))
      return wrong(fmt::format("line {}: 64 pixels from 0 to 16 and a digit are expected",
                               images.size() + 1));
  }
  if (images.size() < 2 * static_cast<std::size_t>(ranks) + kHeldOutOneIn)
    return wrong(fmt::format("{} images are too few for {} ranks", images.size(), ranks));
  return std::unique_ptr<Task>(std::make_unique<Digits>(std::move(images), ranks));
}

}  // namespace weft
