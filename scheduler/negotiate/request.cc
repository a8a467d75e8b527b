// request: see the header.
#include "scheduler/negotiate/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace weft {
namespace {

std::string size_of(const NamedTensor& tensor) {
  return fmt::format("{} elements of {}", tensor.count, name(tensor.type));
}

}  // namespace

std::string_view name(NamedWeights weights) {
  switch (weights) {
    case NamedWeights::none:
      return "none";
    case NamedWeights::one:
      return "one set";
    case NamedWeights::several:
      return "several sets";
  }
  return "unknown";
}

Status compare(const NamedRequest& a, Rank rank_a, const NamedRequest& b, Rank rank_b) {
  const auto differ = [&](std::string_view what, std::string_view has_a, std::string_view has_b) {
    return Status(Code::mismatch,
                  fmt::format("{}: {} differs: rank {} has {}, rank {} has {}", a.name, what,
                              rank_a, has_a, rank_b, has_b),
                  rank_b);
  };
  if (a.collective != b.collective)
    return differ("the operation", name(a.collective), name(b.collective));
  if (a.op != b.op) return differ("the operator", name(a.op), name(b.op));
  if (a.algorithm != b.algorithm)
    return differ("the algorithm", name(a.algorithm), name(b.algorithm));
  if (a.bits != b.bits) return differ("the bits", name(a.bits), name(b.bits));
  if (a.compression != b.compression)
    return differ("the compression", name(a.compression), name(b.compression));
  if (a.low_rank != b.low_rank) {
    return differ("the low rank", fmt::format("rank {}", a.low_rank),
                  fmt::format("rank {}", b.low_rank));
  }
  if (a.root != b.root)
    return differ("the root", fmt::format("rank {}", a.root), fmt::format("rank {}", b.root));
  if (a.weights != b.weights) return differ("the set of weights", name(a.weights), name(b.weights));
  if (a.priority != b.priority)
    return differ("the priority", fmt::to_string(a.priority), fmt::to_string(b.priority));
  if (a.tensors.size() != b.tensors.size()) {
    return differ("the group", fmt::format("{} tensors", a.tensors.size()),
                  fmt::format("{} tensors", b.tensors.size()));
  }
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const NamedTensor& one = a.tensors[i];
    const NamedTensor& other = b.tensors[i];
    const std::string what =
        a.tensors.size() == 1 ? std::string("the tensor") : fmt::format("tensor {}", i);
    if (one.type != other.type || one.count != other.count)
      return differ(what, size_of(one), size_of(other));
    if (one.parts != other.parts) {
      return Status(Code::mismatch,
                    fmt::format("{}: the counts of {} differ between ranks {} and {}", a.name, what,
                                rank_a, rank_b),
                    rank_b);
    }
    if (are_different(one.shape, other.shape)) {
      return differ(fmt::format("the shape of {}", what), text_of_shape(one.shape),
                    text_of_shape(other.shape));
    }
  }
  return {};
}

bool are_different(std::span<const std::size_t> a, std::span<const std::size_t> b) {
  return !a.empty() && !b.empty() && !std::ranges::equal(a, b);
}

std::string text_of_shape(std::span<const std::size_t> shape) {
  const bool is_any = !shape.empty() && shape.front() == kAnyExtent;
  if (!is_any) return fmt::format("({})", fmt::join(shape, ", "));
  return fmt::format("(any{}{})", shape.size() > 1 ? ", " : "", fmt::join(shape.subspan(1), ", "));
}

}  // namespace weft
