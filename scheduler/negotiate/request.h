// request: what ranks submit by name. Internal to the module; others include negotiate.h.
#pragma once

#include <weft/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct NamedTensor {
  DataType type = DataType::f32;
  std::size_t count = 0;
  // Extents, outermost first; empty: not known here, so not compared.
  std::vector<std::size_t> shape{};
  std::uint64_t parts =
      0;  // a digest of the sizes of its parts, where the ranks must give the same
  friend bool operator==(const NamedTensor&, const NamedTensor&) = default;
};

// Whether the tensors of a request have weights of their call: none, the same for all of them, or
// not the same.
enum class NamedWeights : std::uint8_t { none, one, several };
[[nodiscard]] std::string_view name(NamedWeights weights);

// What the ranks must have in common. Peers, weights and memory are each rank's own.
struct NamedRequest {
  std::string name;
  Collective collective = Collective::allreduce;
  ReduceOp op = ReduceOp::average;
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic;
  Bits bits = Bits::automatic;
  Compression compression = Compression::none;
  std::uint32_t low_rank =
      0;  // of Compression::low_rank: the rank; the rows are those of the shapes
  Rank root = kNoRank;
  NamedWeights weights = NamedWeights::none;
  int priority = 0;
  // Several: a group, which counts as one request. Where the sizes of ranks may differ, as in an
  // allgather, the counts are 0.
  std::vector<NamedTensor> tensors;
  friend bool operator==(const NamedRequest&, const NamedRequest&) = default;
};

// The longest name, and the most tensors of a group.
inline constexpr std::size_t kMostNameBytes = 1024;
inline constexpr std::size_t kMostTensors = 65'536;
// The most extents of a shape, as in NumPy and PyTorch.
inline constexpr std::size_t kMostDimensions = 64;
// In place of a first extent in which ranks may differ.
inline constexpr std::size_t kAnyExtent = ~std::size_t{0};

// ok, or how the requests of two ranks under one name differ: "rank 0 has 4 elements of f32, rank 3
// has 5".
[[nodiscard]] Status compare(const NamedRequest& a, Rank rank_a, const NamedRequest& b,
                             Rank rank_b);

// Whether two shapes are known, and are not the same.
[[nodiscard]] bool are_different(std::span<const std::size_t> a, std::span<const std::size_t> b);
// "(2, 3)"; "(any, 3)" where ranks may differ in the first extent.
[[nodiscard]] std::string text_of_shape(std::span<const std::size_t> shape);

}  // namespace weft
