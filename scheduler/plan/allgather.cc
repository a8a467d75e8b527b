// allgather: everybody's input to everybody. Few ranks each copy every block from its owner: each
// byte is copied once, and all copy the blocks in the same order, so a block that is read comes
// from the shared cache for all readers but the first. (The same order also lets every owner stage
// its block through a small ring: readers that begin at different owners would wait for one another
// in a circle.) Many ranks have two edges each on a ring, or, for little data, log2 n with
// dissemination (Bruck et al., 1997), where what a rank holds doubles in each round.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/plan/builder.h"

namespace weft {
namespace {

// direct needs an edge, and so slots, for every other rank.
constexpr int kDirectRanks = 64;
// A ring waits n-1 times, so each wait must move a block that is worth it.
constexpr std::size_t kRingBlockBytes = 16 << 10;

void copy_own(PlanBuilder& plan, Rank rank, Shape shape) {
  if (shape.in_place) return;
  plan.combine(Combining::copy, block_of(Buffer::output, rank),
               {local(block_of(Buffer::input, 0U))});
}

void plan_direct(PlanBuilder& plan, const View& view, Shape shape) {
  if (!view.out.empty()) plan.send(block_of(Buffer::input, 0U), every_edge(view.out));
  copy_own(plan, view.rank, shape);
  for (const std::uint32_t edge : every_edge(view.in)) {
    plan.combine(Combining::copy, block_of(Buffer::output, view.in[edge]), {message(edge)});
  }
}

void plan_ring(PlanBuilder& plan, Rank rank, int size, Shape shape) {
  plan.send(block_of(Buffer::input, 0U), {0});
  copy_own(plan, rank, shape);
  for (int hop = 1; hop < size; ++hop) {
    const Slice block = block_of(Buffer::output, behind(rank, hop, size));
    plan.combine(Combining::copy, block, {message(0)});
    if (hop < size - 1) plan.send(block, {0});
  }
}

// The `count` blocks up to and with that of rank `last`: one slice, or two where they wrap around.
std::vector<Slice> held(Rank last, int count, int size) {
  const auto end = static_cast<std::uint32_t>(last) + 1;
  const auto blocks = static_cast<std::uint32_t>(count);
  if (blocks <= end) return {blocks_of(Buffer::output, end - blocks, end)};
  const auto all = static_cast<std::uint32_t>(size);
  return {blocks_of(Buffer::output, all + end - blocks, all), blocks_of(Buffer::output, 0, end)};
}

// Distances are different powers of two below n, so no peer comes twice.
View dissemination_view(Rank rank, int size) {
  View view{rank, size, {}, {}};
  for (int distance = 1; distance < size; distance *= 2) {
    view.in.push_back(behind(rank, distance, size));
    view.out.push_back((rank + distance) % size);
  }
  std::ranges::sort(view.in);
  std::ranges::sort(view.out);
  return view;
}

void plan_dissemination(PlanBuilder& plan, const View& view, Shape shape) {
  copy_own(plan, view.rank, shape);
  for (int distance = 1; distance < view.size; distance *= 2) {
    const int count = std::min(distance, view.size - distance);
    const Rank from = behind(view.rank, distance, view.size);
    const std::uint32_t to = edge_to(view.out, (view.rank + distance) % view.size);
    for (const Slice& slice : held(view.rank, count, view.size)) plan.send(slice, {to});
    for (const Slice& slice : held(from, count, view.size)) {
      plan.combine(Combining::copy, slice, {message(edge_to(view.in, from))});
    }
  }
}

}  // namespace

Planned plan_allgather(Rank rank, int size, std::size_t bytes, Shape shape) {
  const bool is_direct = size <= kDirectRanks;
  const bool is_ring = !is_direct && bytes / static_cast<std::size_t>(size) >= kRingBlockBytes;
  View view = is_direct ? complete_view(rank, size)
              : is_ring ? View{rank, size, {behind(rank, 1, size)}, {(rank + 1) % size}}
                        : dissemination_view(rank, size);
  PlanBuilder plan("allgather", is_direct ? "direct" : is_ring ? "ring" : "dissemination", view);
  plan.partition(Buffer::input, Partition::Kind::even, 1);
  plan.partition(Buffer::output, Partition::Kind::given, static_cast<std::uint32_t>(size));
  if (is_direct) {
    plan_direct(plan, view, shape);
  } else if (is_ring) {
    plan_ring(plan, rank, size, shape);
  } else {
    plan_dissemination(plan, view, shape);
  }
  const std::string_view why = is_direct ? "everybody copies each block once"
                               : is_ring ? "two edges per rank are best for large blocks"
                                         : "log2 n waits are best for small blocks";
  return {std::move(view),
          std::move(plan).finish(fmt::format("{} bytes on {} ranks: {}", bytes, size, why))};
}

}  // namespace weft
