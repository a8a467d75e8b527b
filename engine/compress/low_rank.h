// low_rank: a matrix in few bytes, by its largest singular values. Internal to the module.
//
//   body:  what it is | k singular values, f32 | k columns of U, f16 | k columns of V, f16
//
// U and V have orthonormal columns, rounded to f16. A is decoded as the sum of s_j u_j v_j^T.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/compress/compress.h"
#include "verbs/base/base.h"

namespace weft::low_rank {

// A matrix by rows, and how many singular values it keeps.
struct Shape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;  // at most as large as the other two

  [[nodiscard]] static Shape of(const Encoding& encoding, std::size_t count);
};

// The exact size of a body.
[[nodiscard]] std::size_t body_bytes(const Shape& shape);
void encode(std::span<const float> values, const Shape& shape, std::byte* body);
// `mismatch` if the body is of another matrix or another rank.
[[nodiscard]] Status check(std::span<const std::byte> body, const Shape& shape);
// to := keep * to + weight * A, where keep is 0 or 1.
void add(const std::byte* body, const Shape& shape, float weight, bool keeps, std::span<float> to);

}  // namespace weft::low_rank
