// Reads samples, and has the textbook formulas. The normal equations square the condition number.
// It is 20 for these features, so double precision leaves about 13 digits.
#include "examples/regression/samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "examples/shared/csv.h"

namespace regression {
namespace {

using Square = std::vector<double>;  // kFeatures rows of kFeatures numbers

double& at(Square& square, std::size_t row, std::size_t column) {
  return square[row * kFeatures + column];
}

std::vector<double> column_of(const examples::Table& table, std::size_t column) {
  std::vector<double> values(table.rows());
  for (std::size_t row = 0; row < values.size(); ++row) values[row] = table.row(row)[column];
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  for (double& value : values) value -= mean;
  return values;
}

double length(std::span<const double> values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// The lower triangle L of A^T A = L L^T, in place (Cholesky). False if a pivot vanishes.
bool factorize(Square& a) {
  for (std::size_t column = 0; column < kFeatures; ++column) {
    const double whole = at(a, column, column);
    for (std::size_t row = column; row < kFeatures; ++row) {
      for (std::size_t k = 0; k < column; ++k)
        at(a, row, column) -= at(a, row, k) * at(a, column, k);
    }
    if (!(at(a, column, column) > 1e-12 * whole)) return false;
    const double pivot = std::sqrt(at(a, column, column));
    for (std::size_t row = column; row < kFeatures; ++row) at(a, row, column) /= pivot;
  }
  return true;
}

// x := the solution of L L^T x = x, forwards through L, then backwards through L^T.
void substitute(Square& l, std::vector<double>& x) {
  for (std::size_t row = 0; row < kFeatures; ++row) {
    for (std::size_t k = 0; k < row; ++k) x[row] -= at(l, row, k) * x[k];
    x[row] /= at(l, row, row);
  }
  for (std::size_t row = kFeatures; row-- > 0;) {
    for (std::size_t k = row + 1; k < kFeatures; ++k) x[row] -= at(l, k, row) * x[k];
    x[row] /= at(l, row, row);
  }
}

}  // namespace

weft::Result<Samples> read_samples(std::istream& stream) {
  WEFT_ASSIGN(const examples::Table table, examples::read_csv(stream, kFeatures + 1));
  Samples samples{std::vector<double>(table.rows() * kFeatures), column_of(table, kFeatures)};
  for (std::size_t feature = 0; feature < kFeatures; ++feature) {
    const std::vector<double> values = column_of(table, feature);
    const double deviation = length(values) / std::sqrt(static_cast<double>(table.rows()));
    if (!(deviation > 0)) {
      return weft::Status(weft::Code::invalid_argument,
                          "column " + std::to_string(feature + 1) + " has one value only");
    }
    for (std::size_t row = 0; row < table.rows(); ++row) {
      samples.features[row * kFeatures + feature] = values[row] / deviation;
    }
  }
  return samples;
}

Samples share(const Samples& samples, int rank, int size) {
  Samples mine;
  for (auto row = static_cast<std::size_t>(rank); row < samples.size();
       row += static_cast<std::size_t>(size)) {
    const auto features = samples.row(row);
    mine.features.insert(mine.features.end(), features.begin(), features.end());
    mine.targets.push_back(samples.targets[row]);
  }
  return mine;
}

void gradient(Model x, const Samples& samples, double scale, std::span<double> result) {
  std::ranges::fill(result, 0.0);
  for (std::size_t number = 0; number < samples.size(); ++number) {
    const auto row = samples.row(number);
    const double error =
        std::inner_product(row.begin(), row.end(), x.begin(), -samples.targets[number]);
    for (std::size_t i = 0; i < kFeatures; ++i) result[i] += scale * error * row[i];
  }
}

weft::Result<std::vector<double>> least_squares(const Samples& samples) {
  Square products(kFeatures * kFeatures);
  std::vector<double> x(kFeatures);
  for (std::size_t number = 0; number < samples.size(); ++number) {
    const auto row = samples.row(number);
    for (std::size_t i = 0; i < kFeatures; ++i) {
      x[i] += row[i] * samples.targets[number];
      for (std::size_t j = 0; j < kFeatures; ++j) at(products, i, j) += row[i] * row[j];
    }
  }
  if (!factorize(products)) {
    return weft::Status(weft::Code::invalid_argument,
                        "the samples do not determine a model: a feature follows from the others");
  }
  substitute(products, x);
  return x;
}

}  // namespace regression
