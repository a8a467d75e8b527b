// allreduce, ring: reduce-scatter and allgather over n blocks, n-1 phases each, one neighbor on
// either side (Patarasuk and Yuan, 2009). 2 M (n-1)/n in per rank and two edges, whatever n is.
//
// multi_ring: as many rings at once as there are rails, each with its own part of the tensor and
// its own neighbors. Ring k steps by the k-th of the strides +1, -1, +s, -s, … that have no divisor
// in common with n, and so passes every rank. A stride twice would be one ring with more messages,
// so n has as many rings as such strides at most.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "scheduler/plan/allreduce_algorithms.h"
#include "scheduler/plan/tensor_part.h"

namespace weft {
namespace {

// The first `most` strides.
std::vector<int> strides_of(int size, int most) {
  std::vector<int> strides{1};
  for (int stride = 1; stride <= size / 2 && std::ssize(strides) < most; ++stride) {
    if (std::gcd(stride, size) != 1) continue;
    if (stride != 1) strides.push_back(stride);
    if (size - stride != stride && std::ssize(strides) < most) strides.push_back(size - stride);
  }
  return strides;
}

TensorPart::Stage ring_of(Rank rank, int size, int stride) {
  TensorPart::Stage ring{TensorPart::Passing::ring, {}, 0};
  ring.members.reserve(static_cast<std::size_t>(size));
  for (Rank member = 0, place = 0; place < size; ++place) {
    if (member == rank) ring.place = place;
    ring.members.push_back(member);
    member = member < size - stride ? member + stride : member - (size - stride);
  }
  return ring;
}

// `rails`: as many as rings, each to have its own; or any other number.
Planned plan_rings(Rank rank, int size, std::size_t bytes, const std::vector<int>& strides,
                   int rails, Shape shape, std::string_view algorithm, std::string reason) {
  const auto blocks = static_cast<std::uint32_t>(size);
  const std::size_t rings = strides.size();
  const std::uint32_t slices = slices_of(rings, bytes / rings / blocks);
  std::vector<TensorPart> parts;
  for (std::uint32_t part = 0; part < slices * rings; ++part) {
    parts.emplace_back(blocks_of(Buffer::input, part * blocks, (part + 1) * blocks),
                       std::vector{ring_of(rank, size, strides[part % rings])}, shape);
  }
  View view = view_of_parts(rank, size, parts);
  PlanBuilder plan("allreduce", algorithm, view);
  plan.partition_evenly(blocks * static_cast<std::uint32_t>(parts.size()));
  plan_parts(plan, view, parts);
  for (int ring = 0; ring < rails && rails == std::ssize(strides); ++ring) {
    const Rank next = (rank + strides[static_cast<std::size_t>(ring)]) % size;
    plan.keep_to_rail(edge_to(view.out, next), ring);
  }
  return {std::move(view), std::move(plan).finish(std::move(reason))};
}

}  // namespace

Planned plan_allreduce_ring(Rank rank, int size, Shape shape, std::string reason) {
  return plan_rings(rank, size, 0, {1}, 0, shape, "ring", std::move(reason));
}

Planned plan_allreduce_multi_ring(Rank rank, int size, std::size_t bytes, Shape shape,
                                  const Layout& layout, const std::string& reason) {
  const std::vector<int> strides = strides_of(size, layout.rails);
  return plan_rings(rank, size, bytes, strides, layout.rails, shape, "multi_ring",
                    fmt::format("{}; {} rings for {} rails", reason, strides.size(), layout.rails));
}

}  // namespace weft
