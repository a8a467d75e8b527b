// allreduce, torus: the ranks lie row by row in a grid that wraps, and rings go along each of its d
// dimensions. Part t of d parts is reduced to shares around the rings of the dimensions t, t+1, …
// (mod d) and gathered back, all parts at once. 2 sum(length - 1) phases, 2 edges per dimension,
// 2 M (n-1)/n in per rank.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "scheduler/plan/allreduce_algorithms.h"
#include "scheduler/plan/factors.h"
#include "scheduler/plan/tensor_part.h"

namespace weft {
namespace {

// As many dimensions as there are rails where the number of ranks allows, else two; empty for a
// prime.
std::vector<int> lengths_of(int size, int rails) {
  std::vector<int> lengths;
  if (rails > 2) lengths = balanced_factors(size, rails);
  return lengths.empty() ? balanced_factors(size, 2) : lengths;
}

}  // namespace

Status check_torus(int size) {
  if (!lengths_of(size, 1).empty()) return {};
  return {Code::invalid_argument,
          fmt::format("torus needs ranks in two dimensions or more: {} is a prime", size)};
}

Planned plan_allreduce_torus(Rank rank, int size, std::size_t bytes, Shape shape,
                             const Layout& layout, const std::string& reason) {
  const std::vector<int> lengths = lengths_of(size, layout.rails);
  invariant(!lengths.empty(), "check_allreduce() allows torus");
  std::vector<TensorPart::Stage> rings;  // by dimension
  int stride = size;
  for (const int length : lengths) {
    stride /= length;
    rings.push_back(stage_along(rank, stride, length, TensorPart::Passing::ring));
  }
  const auto blocks = static_cast<std::uint32_t>(size);
  const std::size_t longest = static_cast<std::size_t>(std::ranges::max(lengths));
  const std::uint32_t slices = slices_of(rings.size(), bytes / rings.size() / longest);
  std::vector<TensorPart> parts;
  for (std::uint32_t part = 0; part < slices * rings.size(); ++part) {
    std::vector<TensorPart::Stage> stages;
    for (std::size_t i = 0; i < rings.size(); ++i) {
      stages.push_back(rings[(part + i) % rings.size()]);
    }
    parts.emplace_back(blocks_of(Buffer::input, part * blocks, (part + 1) * blocks),
                       std::move(stages), shape);
  }
  View view = view_of_parts(rank, size, parts);
  PlanBuilder plan("allreduce", "torus", view);
  plan.partition_evenly(blocks * static_cast<std::uint32_t>(parts.size()));
  plan_parts(plan, view, parts);
  return {std::move(view), std::move(plan).finish(fmt::format("{}; rings along {}", reason,
                                                              fmt::join(lengths, " x ")))};
}

}  // namespace weft
