// broadcast: the root's input to everybody's output. Few ranks read the root directly; more ranks
// form a binomial tree, through which a large tensor flows in pieces, so that the levels work at
// the same time.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/plan/builder.h"
#include "scheduler/plan/tree.h"

namespace weft {
namespace {

// So many ranks can read one source at once without it becoming the bottleneck: it sits in a shared
// cache.
constexpr int kFlatRanks = 8;
Tree flat_tree(Rank rank, int size, Rank root) {
  if (rank != root) return {root, {}};
  return {kNoRank, complete_view(rank, size).out};
}

View view_of(Rank rank, int size, const Tree& tree) {
  View view{rank, size, {}, tree.children};
  if (tree.parent != kNoRank) view.in = {tree.parent};
  std::sort(view.out.begin(), view.out.end());
  return view;
}

std::vector<std::uint32_t> edges_to_children(const View& view, const Tree& tree) {
  std::vector<std::uint32_t> edges;
  for (const Rank child : tree.children) edges.push_back(edge_to(view.out, child));
  return edges;
}

// The root's own copy comes last, when the children are already busy.
void plan_root(PlanBuilder& plan, const std::vector<std::uint32_t>& children, std::uint32_t pieces,
               Shape shape) {
  for (std::uint32_t piece = 0; piece < pieces && !children.empty(); ++piece) {
    plan.send(block_of(Buffer::input, piece), children);
  }
  if (!shape.in_place) {
    plan.combine(Combining::copy, blocks_of(Buffer::output, 0, pieces),
                 {local(blocks_of(Buffer::input, 0, pieces))});
  }
}

void plan_follower(PlanBuilder& plan, const std::vector<std::uint32_t>& children,
                   std::uint32_t pieces) {
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    plan.combine(Combining::copy, block_of(Buffer::output, piece), {message(0)});
    if (!children.empty()) plan.send(block_of(Buffer::output, piece), children);
  }
}

}  // namespace

Planned plan_broadcast(Rank rank, int size, Rank root, std::size_t bytes, Shape shape) {
  invariant(root >= 0, "a root is not negative");
  invariant(root < size, "a root is below the size");
  const bool is_flat = size <= kFlatRanks;
  const Tree tree = is_flat ? flat_tree(rank, size, root) : binomial_tree(rank, size, root);
  const std::uint32_t pieces = is_flat ? 1 : tree_pieces(bytes);

  View view = view_of(rank, size, tree);
  PlanBuilder plan("broadcast", is_flat ? "flat" : "binomial", view);
  plan.partition_evenly(pieces);
  const std::vector<std::uint32_t> children = edges_to_children(view, tree);
  if (rank == root) {
    plan_root(plan, children, pieces, shape);
  } else {
    plan_follower(plan, children, pieces);
  }
  std::string reason =
      is_flat
          ? fmt::format("{} bytes on {} ranks: up to {} all read the root", bytes, size, kFlatRanks)
          : fmt::format("{} bytes on {} ranks: a tree above {} ranks, in {} pieces", bytes, size,
                        kFlatRanks, pieces);
  return {std::move(view), std::move(plan).finish(std::move(reason))};
}

}  // namespace weft
