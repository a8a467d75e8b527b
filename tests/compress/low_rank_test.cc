// Matrices by their singular values: how near they come back, what is refused, when a sketch goes instead.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/compress/compress.h"

namespace weft {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Encoding matrix(std::size_t rows, std::uint32_t rank) {
  return {Compression::low_rank, {.rows = rows, .rank = rank}};
}

std::vector<std::byte> encode(const Encoding& how, const std::vector<float>& values) {
  std::vector<std::byte> bytes(encoded_bytes(how, values.size()));
  Encoder().encode(how, values, bytes);
  return bytes;
}

std::vector<float> through(const Encoding& how, const std::vector<float>& values) {
  const std::vector<std::byte> bytes = encode(how, values);
  const Result<Encoded> encoded = Encoded::open(bytes, how, values.size());
  EXPECT_TRUE(encoded.ok()) << encoded.status().to_string();
  std::vector<float> back(values.size());
  if (encoded.ok()) encoded->decode(back);
  return back;
}

double norm(const std::vector<float>& x, const std::vector<float>* minus = nullptr) {
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    squares += std::pow(double{x[i]} - (minus == nullptr ? 0.0F : (*minus)[i]), 2);
  return std::sqrt(squares);
}

// The sum of `rank` outer products of random vectors, the j-th times decay^j.
std::vector<float> product(std::size_t rows, std::size_t columns, std::size_t rank, double decay,
                           std::uint32_t seed, double unit = 1) {
  std::mt19937 random(seed);
  std::normal_distribution law(0.0, 1.0);
  std::vector<double> sum(rows * columns);
  for (std::size_t j = 0; j < rank; ++j) {
    std::vector<double> left(rows), right(columns);
    for (double& value : left) value = law(random);
    for (double& value : right) value = law(random) * unit * std::pow(decay, j);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) sum[r * columns + c] += left[r] * right[c];
  }
  return {sum.begin(), sum.end()};
}

TEST(LowRank, HasItsExactSize) {
  const std::size_t body = 16 + 4 * 4 + 2 * 4 * (100 + 50);
  EXPECT_EQ(encoded_bytes(matrix(100, 4), 5'000), 16 + body);
  EXPECT_EQ(matrix(100, 4).form(5'000), Compression::low_rank);
  EXPECT_EQ(encoded_bytes(matrix(10, 4), 0), encoded_bytes(matrix(10, 4), 0));
  EXPECT_LT(100 * encoded_bytes(matrix(1024, 4), 1 << 20),
            2 * encoded_bytes(Compression::sketch, 1 << 20));
}

TEST(LowRank, MatricesOfThatRankComeBack) {
  for (const auto& [rows, columns] : {std::pair{100U, 50U}, {31U, 400U}, {333U, 77U}}) {
    for (const std::uint32_t rank : {1U, 3U, 4U}) {
      for (const double unit : {1e-30, 1e-3, 1.0, 1e25}) {
        const std::vector<float> values = product(rows, columns, rank, 0.5, rows + rank, unit);
        const std::vector<float> back = through(matrix(rows, 4), values);
        // Sums of squares of what is far from 1 are beyond what f32 has, but not beyond f64.
        EXPECT_LE(norm(back, &values), norm(values) * std::sqrt(rank) * 0x1p-9)
            << rows << " x " << columns << ", rank " << rank << ", " << unit;
      }
    }
  }
}

// Singular values that fall by half: the best that is left is a geometric sum.
TEST(LowRank, OthersAreNearTheBestApproximation) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    constexpr std::size_t kRows = 120, kColumns = 80;
    const std::vector<float> values = product(kRows, kColumns, 20, 0.5, seed);
    double before = norm(values);
    for (const std::uint32_t rank : {1U, 2U, 4U, 8U}) {
      const std::vector<float> first = product(kRows, kColumns, rank, 0.5, seed);
      const std::vector<float> back = through(matrix(kRows, rank), values);
      const double left = norm(back, &values);
      // A matrix of that rank is not nearer than the best one, so this bounds the best from above.
      EXPECT_LE(left, 2 * norm(first, &values) + norm(values) * 0.01) << rank;
      EXPECT_LT(left, before) << rank;
      before = left;
    }
  }
}

TEST(LowRank, OneThatIsNotFiniteShowsEverywhere) {
  for (const float value : {kNan, kInfinity, -kInfinity}) {
    std::vector<float> values = product(60, 60, 2, 1, 1);
    values[1234] = value;
    const std::vector<float> back = through(matrix(60, 2), values);
    EXPECT_TRUE(std::ranges::all_of(back, [](float each) { return std::isnan(each); }));
  }
  const std::vector<float> zeros(3600);
  EXPECT_EQ(through(matrix(60, 2), zeros), zeros);
}

TEST(LowRank, WhatWouldNotBecomeSmallerIsASketch) {
  const std::vector<float> values = product(40, 30, 30, 1, 5);
  for (const Encoding& how : {matrix(40, 30), matrix(1, 4), matrix(1200, 1)}) {
    EXPECT_EQ(how.form(values.size()), Compression::sketch);
    const EncodedCounts before = encoded_counts(Compression::sketch);
    const std::vector<std::byte> bytes = encode(how, values);
    EXPECT_EQ(encoded_counts(Compression::sketch).tensors, before.tensors + 1);
    EXPECT_EQ(encoded_counts(Compression::sketch).bytes, before.bytes + bytes.size());
    std::vector<std::byte> sketch(encoded_bytes(Compression::sketch, values.size()));
    Encoder().encode(Compression::sketch, values, sketch);
    EXPECT_EQ(bytes, sketch);
    EXPECT_TRUE(Encoded::open(bytes, how, values.size()).ok());
  }
}

TEST(LowRank, AddsTimesAWeightAndEqualMatricesHaveEqualBytes) {
  const std::vector<float> values = product(64, 64, 2, 0.5, 9);
  const Encoding how = matrix(64, 2);
  const std::vector<std::byte> bytes = encode(how, values);
  EXPECT_EQ(bytes, encode(how, values));
  std::vector<float> sum(values.size(), 10);
  Encoded::open(bytes, how, values.size())->add(-0.5F, sum);
  const std::vector<float> back = through(how, values);
  for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], 10 - 0.5F * back[i], 1e-4);
}

TEST(LowRank, OfAnotherKindIsRefused) {
  const std::vector<float> values = product(64, 64, 2, 0.5, 9);
  const std::vector<std::byte> good = encode(matrix(64, 2), values);
  const auto said = [&](const std::vector<std::byte>& bytes, const Encoding& how) {
    const Result<Encoded> encoded = Encoded::open(bytes, how, values.size());
    EXPECT_EQ(encoded.status().code(), Code::mismatch);
    return std::string(encoded.status().text());
  };
  EXPECT_NE(said({good.begin(), good.end() - 1}, matrix(64, 2)).find("instead of"),
            std::string::npos);
  EXPECT_NE(said({good.begin(), good.begin() + 20}, matrix(64, 2)).find("instead of"),
            std::string::npos);
  EXPECT_NE(said(good, matrix(64, 3)).find("instead of"), std::string::npos);
  EXPECT_NE(said(good, Compression::sketch).find("is encoded as low_rank"), std::string::npos);
  std::vector<std::byte> other = good;
  other[4] = std::byte{9};
  EXPECT_NE(said(other, matrix(64, 2)).find("version 9"), std::string::npos);
  other = good;
  other[16] = std::byte{32};
  EXPECT_NE(said(other, matrix(64, 2)).find("a matrix of 32 rows and rank 2"), std::string::npos);
}

TEST(LowRank, WhatIsNoMatrixIsNamed) {
  const auto said = [](const Encoding& how, std::size_t count) {
    const Status status = how.check("x", count);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    return std::string(status.text());
  };
  EXPECT_EQ(said(matrix(7, 4), 20), "x: 20 elements are no matrix of 7 rows");
  EXPECT_NE(said(matrix(0, 4), 20).find("number of rows"), std::string::npos);
  EXPECT_NE(said(matrix(4, 0), 20).find("a rank of 0"), std::string::npos);
  EXPECT_TRUE(matrix(4, 9).check("x", 20).ok());
  EXPECT_TRUE(matrix(4, 9).check("x", 0).ok());
}

TEST(LowRank, ResidualsLoseNothingForGood) {
  const Encoding how = matrix(64, 2);
  std::vector<float> given(4096), with(4096), residual(4096);
  Encoder encoder;
  std::vector<std::byte> bytes(encoded_bytes(how, given.size()));
  for (std::uint32_t step = 0; step < 100; ++step) {
    const std::vector<float> gradient = product(64, 64, 6, 0.7, step);
    for (std::size_t i = 0; i < given.size(); ++i) given[i] += gradient[i];
    encoder.encode(how, gradient, bytes, residual);
    Encoded::open(bytes, how, given.size())->add(1, with);
  }
  for (std::size_t i = 0; i < given.size(); ++i)
    ASSERT_NEAR(with[i] + residual[i], given[i], 2e-3) << i;
  EXPECT_LT(norm(residual), norm(given));
}

}  // namespace
}  // namespace weft
