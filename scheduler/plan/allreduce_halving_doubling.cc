// allreduce, halving-doubling: recursive vector halving with distance doubling, then back
// (Rabenseifner, 2004; Thakur et al., 2005). 2 log2 n phases and log2 n edges per rank; 2 M (n-1)/n
// in per rank.
//
// The core is the largest power of two of ranks. A rank beyond it gives its whole input to its
// partner in the core first and gets the whole result last. In round k core ranks r and r xor 2^k
// exchange halves of the window that they share and keep one half each, so the largest messages go
// to the nearest rank.
#include <bit>
#include <utility>

#include "scheduler/plan/allreduce_algorithms.h"
#include "scheduler/plan/builder.h"

namespace weft {
namespace {

constexpr Weight kScale{Weight::Kind::scale, 0};

struct Core {
  int size;  // ranks in the core, a power of two, which is also the number of blocks
  int rest;  // ranks beyond it
  [[nodiscard]] bool has_extra(Rank rank) const { return rank < rest; }
  [[nodiscard]] std::uint32_t blocks() const { return static_cast<std::uint32_t>(size); }
};

Core core_of(int size) {
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  return {core, size - core};
}

// One round of the halving, remembered for the way back.
struct Round {
  std::uint32_t edge;     // to the partner and, as peers are the same both ways, from it
  Slice given;            // the half that the partner reduces
  Slice kept;             // the half that we reduce
  std::uint32_t send;     // the step that sent `given`
  bool gave_from_output;  // false: `given` was sent out of the input
};

View core_view(Rank rank, int size, const Core& core) {
  std::vector<Rank> peers;
  for (int distance = 1; distance < core.size; distance *= 2) peers.push_back(rank ^ distance);
  if (core.has_extra(rank)) peers.push_back(core.size + rank);
  return symmetric_view(rank, size, std::move(peers));
}

Slice moved(Slice slice, Buffer buffer) {
  return {buffer, slice.first, slice.last};
}

// Reduces the window down to one block. A rank that took in an extra rank's input has its partial
// sums, already scaled, in the output from the start; the others begin with their raw input.
std::vector<Round> halve(PlanBuilder& plan, const View& view, const Core& core) {
  std::vector<Round> rounds;
  Slice window = blocks_of(Buffer::output, 0, core.blocks());
  for (Rank distance = 1; distance < core.size; distance *= 2) {
    const Rank partner = view.rank ^ distance;
    const bool is_first = distance == 1;
    const std::uint32_t middle = (window.first + window.last) / 2;
    const Slice lower = blocks_of(Buffer::output, window.first, middle);
    const Slice upper = blocks_of(Buffer::output, middle, window.last);
    const bool keeps_lower = view.rank < partner;

    const bool own_is_raw = is_first && !core.has_extra(view.rank);
    const bool theirs_is_raw = is_first && !core.has_extra(partner);
    const Buffer source = own_is_raw ? Buffer::input : Buffer::output;
    Round round{edge_to(view.out, partner), keeps_lower ? upper : lower,
                keeps_lower ? lower : upper, 0, !own_is_raw};
    round.send = plan.send(moved(round.given, source), {round.edge}, Combining::reduce);
    const Operand own = local(moved(round.kept, source), own_is_raw ? kScale : Weight{});
    const Operand theirs = message(round.edge, theirs_is_raw ? kScale : Weight{});
    // The lower rank's term comes first.
    const std::vector<Operand> terms =
        keeps_lower ? std::vector{own, theirs} : std::vector{theirs, own};
    if (2 * distance == core.size) {
      plan.combine_whole(Combining::reduce, round.kept, terms);
    } else {
      plan.combine(Combining::reduce, round.kept, terms);
    }
    window = round.kept;
    rounds.push_back(round);
  }
  return rounds;
}

// The way back: each round returns the complete half that its partner made of what was given to it.
void gather(PlanBuilder& plan, const std::vector<Round>& rounds, Shape shape) {
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    plan.send(round->kept, {round->edge});
    const bool overwrites_sent = round->gave_from_output || shape.in_place;
    plan.combine(Combining::copy, round->given, {message(round->edge)},
                 overwrites_sent ? std::vector{round->send} : std::vector<std::uint32_t>{});
  }
}

void plan_core(PlanBuilder& plan, const View& view, const Core& core, Shape shape) {
  const Slice input = blocks_of(Buffer::input, 0, core.blocks());
  const Slice output = blocks_of(Buffer::output, 0, core.blocks());
  const bool has_extra = core.has_extra(view.rank);
  const std::uint32_t extra = has_extra ? edge_to(view.in, core.size + view.rank) : 0;
  if (has_extra) {
    plan.combine(Combining::reduce, output, {local(input, kScale), message(extra, kScale)});
  }
  const std::vector<Round> rounds = halve(plan, view, core);
  gather(plan, rounds, shape);
  if (has_extra) plan.send(output, {extra});
}

void plan_extra(PlanBuilder& plan, const Core& core, Shape shape) {
  const std::uint32_t sent =
      plan.send(blocks_of(Buffer::input, 0, core.blocks()), {0}, Combining::reduce);
  plan.combine(Combining::copy, blocks_of(Buffer::output, 0, core.blocks()), {message(0)},
               shape.in_place ? std::vector{sent} : std::vector<std::uint32_t>{});
}

}  // namespace

Planned plan_allreduce_halving_doubling(Rank rank, int size, Shape shape, std::string reason) {
  const Core core = core_of(size);
  const bool is_extra = rank >= core.size;
  View view =
      is_extra ? symmetric_view(rank, size, {rank - core.size}) : core_view(rank, size, core);
  PlanBuilder plan("allreduce", "halving_doubling", view);
  plan.partition_evenly(core.blocks());
  if (is_extra) {
    plan_extra(plan, core, shape);
  } else {
    plan_core(plan, view, core, shape);
  }
  return {std::move(view), std::move(plan).finish(std::move(reason))};
}

}  // namespace weft
