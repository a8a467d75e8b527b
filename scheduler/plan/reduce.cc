// reduce: everybody's input to the root's output. One reader is enough for little data of few
// ranks. More data is split: rank r reduces block r of all, so that all cores work, and the root
// copies the blocks. Many ranks form a binomial tree, through which a large tensor flows in pieces.
// The tree does not sum in rank order; fixed bits do without it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/plan/builder.h"
#include "scheduler/plan/tree.h"

namespace weft {
namespace {

// One rank reads so many others without the waits of a tree.
constexpr int kDirectRanks = 8;
// Up to about this much, one rank's reading costs less than the second wait of split.
constexpr std::size_t kDirectReadBytes = 256 << 10;
// split needs an edge, and so slots, for every other rank.
constexpr int kSplitRanks = 64;
constexpr Weight kScale{Weight::Kind::scale, 0};

View direct_view(Rank rank, int size, Rank root) {
  if (rank != root) return {rank, size, {}, {root}};
  return {rank, size, complete_view(rank, size).in, {}};
}

View tree_view(Rank rank, int size, const Tree& tree) {
  View view{rank, size, tree.children, {}};
  if (tree.parent != kNoRank) view.out = {tree.parent};
  std::ranges::sort(view.in);
  return view;
}

void plan_direct(PlanBuilder& plan, const View& view, Rank root) {
  const Slice input = block_of(Buffer::input, 0U);
  plan.partition(Buffer::input, Partition::Kind::even, 1);
  if (view.rank != root) {
    plan.send(input, {0}, Combining::reduce);
    return;
  }
  plan.partition(Buffer::output, Partition::Kind::even, 1);
  plan.combine_whole(Combining::reduce, block_of(Buffer::output, 0U),
                     in_rank_order(view, local(input, kScale), Weight::Kind::scale));
}

void plan_split(PlanBuilder& plan, const View& view, Rank root, Shape shape) {
  const bool is_root = view.rank == root;
  const auto blocks = static_cast<std::uint32_t>(view.size);
  const Buffer result = is_root ? Buffer::output : Buffer::scratch;
  plan.partition(Buffer::input, Partition::Kind::even, blocks);
  plan.partition(result, Partition::Kind::even, blocks);
  const std::vector<Rank> others = others_clockwise(view.rank, view.size);
  std::vector<std::uint32_t> raw_sends;  // in the order of `others`
  for (const Rank owner : others) {
    raw_sends.push_back(
        plan.send(block_of(Buffer::input, owner), {edge_to(view.out, owner)}, Combining::reduce));
  }
  plan.combine_whole(
      Combining::reduce, block_of(result, view.rank),
      in_rank_order(view, local(block_of(Buffer::input, view.rank), kScale), Weight::Kind::scale));
  if (!is_root) {
    plan.send(block_of(result, view.rank), {edge_to(view.out, root)});
    return;
  }
  // In place, block b of the output is what we sent to b. Its result was made from it, so this
  // never waits.
  for (std::size_t i = 0; i < others.size(); ++i) {
    plan.combine(Combining::copy, block_of(Buffer::output, others[i]),
                 {message(edge_to(view.in, others[i]))},
                 shape.in_place ? std::vector{raw_sends[i]} : std::vector<std::uint32_t>{});
  }
}

// What a leaf sends is raw input, which its receiver scales; other messages are partial sums.
void plan_tree(PlanBuilder& plan, const View& view, const Tree& tree, std::uint32_t pieces,
               Rank root) {
  const bool is_root = view.rank == root;
  plan.partition(Buffer::input, Partition::Kind::even, pieces);
  const Buffer result = is_root                 ? Buffer::output
                        : tree.children.empty() ? Buffer::input
                                                : Buffer::scratch;
  if (result != Buffer::input) plan.partition(result, Partition::Kind::even, pieces);
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    if (result != Buffer::input) {
      std::vector<Operand> operands{local(block_of(Buffer::input, piece), kScale)};
      // The nearest child first: so the terms are in rank order, counted from the root.
      for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) {
        const bool is_leaf = binomial_tree(*child, view.size, root).children.empty();
        operands.push_back(message(edge_to(view.in, *child), is_leaf ? kScale : Weight{}));
      }
      if (is_root) {
        plan.combine_whole(Combining::reduce, block_of(result, piece), operands);
      } else {
        plan.combine(Combining::reduce, block_of(result, piece), operands);
      }
    }
    if (!is_root) plan.send(block_of(result, piece), {0}, Combining::reduce);
  }
}

// The reduction of one input is that input, whatever the operator.
void plan_alone(PlanBuilder& plan, Shape shape) {
  plan.partition_evenly(1);
  if (shape.in_place) return;
  plan.combine(Combining::copy, block_of(Buffer::output, 0U), {local(block_of(Buffer::input, 0U))});
}

}  // namespace

Planned plan_reduce(Rank rank, int size, Rank root, std::size_t bytes, Shape shape, Bits bits) {
  invariant(root >= 0, "a root is not negative");
  invariant(root < size, "a root is below the size");
  const bool is_small = bytes <= kDirectReadBytes / static_cast<std::size_t>(size);
  const bool is_fixed = bits == Bits::fixed;
  const bool is_direct = is_small && (is_fixed || size <= kDirectRanks);
  const bool is_split = !is_small && (is_fixed || size <= kSplitRanks);
  const Tree tree = binomial_tree(rank, size, root);
  View view = is_direct  ? direct_view(rank, size, root)
              : is_split ? complete_view(rank, size)
                         : tree_view(rank, size, tree);
  PlanBuilder plan("reduce", is_direct ? "direct" : is_split ? "split" : "binomial", view);
  if (size == 1) {
    plan_alone(plan, shape);
  } else if (is_direct) {
    plan_direct(plan, view, root);
  } else if (is_split) {
    plan_split(plan, view, root, shape);
  } else {
    plan_tree(plan, view, tree, tree_pieces(bytes), root);
  }
  const std::string_view why = is_direct  ? "the root reads all, one wait is best"
                               : is_split ? "everybody reduces a block, all cores work"
                                          : "a tree has few edges and log2 n waits";
  return {std::move(view),
          std::move(plan).finish(fmt::format("{} bytes on {} ranks: {}{}", bytes, size, why,
                                             is_fixed ? "; fixed bits, in rank order" : ""))};
}

}  // namespace weft
