// low_rank: factors by a randomized range finder (Halko, Martinsson and Tropp 2011, algorithms 4.4 and 5.1)
// with one power iteration: A is applied to a few random columns, its transpose to what comes out, and A to
// an orthonormal basis of that. Only small matrices are decomposed.
#include "engine/compress/low_rank.h"

#include <fmt/core.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/kernels/kernels.h"

namespace weft::low_rank {
namespace {

struct Header {
  std::uint64_t rows;
  std::uint32_t rank;
  std::uint32_t zero;
};
static_assert(sizeof(Header) == 16);

using ByRows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ByColumns = Eigen::MatrixXf;

// So many more columns than the rank make the largest singular values accurate.
constexpr std::size_t kMoreColumns = 4;

constexpr float kSmall = 0x1p-30F, kLarge = 0x1p30F;

Eigen::Index index(std::size_t number) {
  return static_cast<Eigen::Index>(number);
}

// The same signs for equal shapes on every machine.
ByColumns random_signs(std::size_t rows, std::size_t columns) {
  ByColumns signs(index(rows), index(columns));
  std::uint64_t state = 0x9E3779B97F4A7C15;
  for (float& sign : signs.reshaped()) {
    state = state * 6364136223846793005 + 1442695040888963407;
    sign = (state >> 63) != 0 ? 1.0F : -1.0F;
  }
  return signs;
}

// Columns that are orthonormal and span what the columns of x span.
ByColumns orthonormal(const ByColumns& x) {
  return Eigen::HouseholderQR<ByColumns>(x).householderQ() *
         ByColumns::Identity(x.rows(), x.cols());
}

struct Factors {
  ByColumns u, v;  // more columns than are needed
  Eigen::VectorXf s;
};

Factors factors_of(const Eigen::Map<const ByRows>& a, const Shape& shape) {
  const std::size_t width = std::min({shape.rank + kMoreColumns, shape.rows, shape.columns});
  const ByColumns range = orthonormal(a * random_signs(shape.columns, width));
  const ByColumns right = orthonormal(a.transpose() * range);
  const Eigen::HouseholderQR<ByColumns> left(a * right);
  const ByColumns small = left.matrixQR().topRows(index(width)).triangularView<Eigen::Upper>();
  const Eigen::JacobiSVD<ByColumns> svd(small, Eigen::ComputeFullU | Eigen::ComputeFullV);
  const ByColumns basis = left.householderQ() * ByColumns::Identity(a.rows(), index(width));
  return {basis * svd.matrixU(), right * svd.matrixV(), svd.singularValues()};
}

// Where the parts of a body begin.
struct Parts {
  explicit Parts(const Shape& shape)
      : values(sizeof(Header)),
        u(values + shape.rank * sizeof(float)),
        v(u + shape.rank * shape.rows * size_of(DataType::f16)),
        end(v + shape.rank * shape.columns * size_of(DataType::f16)) {}
  std::size_t values, u, v, end;
};

std::span<const float> columns_of(const ByColumns& x, std::size_t columns) {
  return {x.data(), static_cast<std::size_t>(x.rows()) * columns};
}

ByColumns widened(const std::byte* from, std::size_t rows, std::size_t columns) {
  ByColumns made(index(rows), index(columns));
  widen(DataType::f16, from, {made.data(), rows * columns});
  return made;
}

}  // namespace

Shape Shape::of(const Encoding& encoding, std::size_t count) {
  Shape shape;
  shape.rows = encoding.low_rank.rows;
  shape.columns = shape.rows == 0 ? 0 : count / shape.rows;
  shape.rank = std::min({std::size_t{encoding.low_rank.rank}, shape.rows, shape.columns});
  return shape;
}

std::size_t body_bytes(const Shape& shape) {
  return Parts(shape).end;
}

// Numbers whose squares would be too large or too small are scaled first. A matrix with NaN or infinity has
// singular values of NaN.
void encode(std::span<const float> values, const Shape& shape, std::byte* body) {
  const Header header{shape.rows, static_cast<std::uint32_t>(shape.rank), 0};
  std::memcpy(body, &header, sizeof header);
  const Parts parts(shape);
  const Eigen::Map<const ByRows> a(values.data(), index(shape.rows), index(shape.columns));
  const bool is_finite = moments(values).count == values.size();
  const float largest = largest_finite(values);
  Factors factors;
  if (largest == 0 || !is_finite) {
    const float value = is_finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
    factors.u = ByColumns::Zero(index(shape.rows), index(shape.rank));
    factors.v = ByColumns::Zero(index(shape.columns), index(shape.rank));
    factors.s = Eigen::VectorXf::Constant(index(shape.rank), value);
  } else if (kSmall < largest && largest < kLarge) {
    factors = factors_of(a, shape);
  } else {
    const ByRows scaled = a / largest;
    factors = factors_of(Eigen::Map<const ByRows>(scaled.data(), a.rows(), a.cols()), shape);
    factors.s *= largest;
  }
  std::memcpy(body + parts.values, factors.s.data(), shape.rank * sizeof(float));
  narrow(DataType::f16, columns_of(factors.u, shape.rank), body + parts.u);
  narrow(DataType::f16, columns_of(factors.v, shape.rank), body + parts.v);
}

Status check(std::span<const std::byte> body, const Shape& shape) {
  Header header;
  std::memcpy(&header, body.data(), sizeof header);
  if (header.rows == shape.rows && header.rank == shape.rank && header.zero == 0) return {};
  return Status(Code::mismatch,
                fmt::format("a tensor is encoded as a matrix of {} rows and rank {}, and this rank "
                            "has {} rows and rank {}",
                            header.rows, header.rank, shape.rows, shape.rank));
}

void add(const std::byte* body, const Shape& shape, float weight, bool keeps, std::span<float> to) {
  const Parts parts(shape);
  Eigen::VectorXf s(index(shape.rank));
  std::memcpy(s.data(), body + parts.values, shape.rank * sizeof(float));
  const ByColumns u = widened(body + parts.u, shape.rows, shape.rank) * (weight * s).asDiagonal();
  const ByColumns v = widened(body + parts.v, shape.columns, shape.rank);
  Eigen::Map<ByRows> sum(to.data(), index(shape.rows), index(shape.columns));
  if (keeps) {
    sum.noalias() += u * v.transpose();
  } else {
    sum.noalias() = u * v.transpose();
  }
}

}  // namespace weft::low_rank
