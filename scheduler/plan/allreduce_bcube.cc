// allreduce, bcube: n = a^b ranks are b digits of base a, and a rank's neighbors on level l,
// reached by interface l, differ from it in digit l only (Canary, section 4.4 and Table 2; BCube:
// Guo et al., SIGCOMM 2009). 2 b phases, b (a-1) edges, 2 M (n-1)/n in per rank.
//
// The tensor is cut in b parts of n blocks, or a multiple of b. Part t is reduced to shares over the
// levels t, t+1, … (mod b) and gathered over the same levels in reverse, so in every phase each
// level carries another part and every interface is busy with as much as the others.
#include <fmt/format.h>

#include <utility>

#include "scheduler/plan/allreduce_algorithms.h"
#include "scheduler/plan/factors.h"
#include "scheduler/plan/tensor_part.h"

namespace weft {
namespace {

struct Digits {
  int base = 0;  // 0: the ranks are no such number
  int count = 0;
};

// One digit for each rail where the number of ranks allows, else as many as it does.
Digits digits_of(int size, int rails) {
  constexpr int kMost = 30;  // 2^31 is no int
  if (rails >= 2 && rails <= kMost && exact_root(size, rails) >= 2) {
    return {exact_root(size, rails), rails};
  }
  for (int count = kMost; count >= 2; --count) {
    if (exact_root(size, count) >= 2) return {exact_root(size, count), count};
  }
  return {};
}

// Each level's edges on the rail of their own: two of them that shared it would make each other's
// phases uneven, and then one rank waits for another all around.
void keep_levels_apart(PlanBuilder& plan, const View& view, int base) {
  for (const Rank peer : view.out) {
    int level = 0;
    for (int a = view.rank, b = peer; a % base == b % base; a /= base, b /= base) ++level;
    plan.keep_to_rail(edge_to(view.out, peer), level);
  }
}

}  // namespace

Status check_bcube(int size) {
  if (digits_of(size, 1).base != 0) return {};
  return {Code::invalid_argument,
          fmt::format("bcube needs a^b ranks with b of at least 2: {} is no square, cube or higher "
                      "power",
                      size)};
}

Planned plan_allreduce_bcube(Rank rank, int size, std::size_t bytes, Shape shape,
                             const Layout& layout, const std::string& reason) {
  const auto [base, count] = digits_of(size, layout.rails);
  invariant(base != 0, "check_allreduce() allows bcube");
  const auto blocks = static_cast<std::uint32_t>(size);
  const auto levels = static_cast<std::uint32_t>(count);
  const std::uint32_t slices = slices_of(levels, bytes / levels / static_cast<std::size_t>(base));
  std::vector<TensorPart> parts;
  for (std::uint32_t part = 0; part < slices * levels; ++part) {
    std::vector<TensorPart::Stage> stages;
    for (int i = 0; i < count; ++i) {
      int stride = 1;
      for (int level = (static_cast<int>(part) + i) % count; level > 0; --level) stride *= base;
      stages.push_back(stage_along(rank, stride, base, TensorPart::Passing::direct));
    }
    parts.emplace_back(blocks_of(Buffer::input, part * blocks, (part + 1) * blocks),
                       std::move(stages), shape);
  }
  View view = view_of_parts(rank, size, parts);
  PlanBuilder plan("allreduce", "bcube", view);
  plan.partition_evenly(blocks * levels * slices);
  plan_parts(plan, view, parts);
  if (count == layout.rails) keep_levels_apart(plan, view, base);
  return {std::move(view), std::move(plan).finish(fmt::format(
                               "{}; {} levels of {} ranks each, all busy", reason, count, base))};
}

}  // namespace weft
