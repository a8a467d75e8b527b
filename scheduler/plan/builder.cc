// builder: appending steps, and the small words that planners share.
#include "scheduler/plan/builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft {
namespace {

std::uint32_t count_of(std::size_t n) {
  return static_cast<std::uint32_t>(n);
}

bool are_in_order(const std::vector<Rank>& peers) {
  return std::adjacent_find(peers.begin(), peers.end(), std::greater_equal<>()) == peers.end();
}

bool is_one_round(const Plan& plan) {
  std::vector<bool> sent(plan.out_degree), taken(plan.in_degree);
  bool takes = false;
  for (const Step& step : plan.steps) {
    const bool sends = step.kind == Step::Kind::send;
    if (sends && takes) return false;
    for (std::uint32_t i = step.first; i < step.first + step.count; ++i) {
      if (!sends && plan.operands[i].kind == Operand::Kind::local) continue;
      takes = takes || !sends;
      std::vector<bool>::reference used =
          sends ? sent[plan.edges[i]] : taken[plan.operands[i].edge];
      if (used) return false;
      used = true;
    }
  }
  return true;
}

}  // namespace

PlanBuilder::PlanBuilder(std::string_view operation, std::string_view algorithm, const View& view) {
  invariant(view.rank >= 0, "a rank is not negative");
  invariant(view.rank < view.size, "a rank is below the size");
  invariant(are_in_order(view.in), "in-peers ascend");
  invariant(are_in_order(view.out), "out-peers ascend");
  plan_.operation = operation;
  plan_.algorithm = algorithm;
  plan_.in_degree = count_of(view.in.size());
  plan_.out_degree = count_of(view.out.size());
}

void PlanBuilder::partition(Buffer buffer, Partition::Kind kind, std::uint32_t blocks) {
  plan_.partition[static_cast<std::size_t>(buffer)] = {kind, blocks};
}

void PlanBuilder::partition_evenly(std::uint32_t blocks) {
  partition(Buffer::input, Partition::Kind::even, blocks);
  partition(Buffer::output, Partition::Kind::even, blocks);
}

std::uint32_t PlanBuilder::send(Slice slice, const std::vector<std::uint32_t>& edges,
                                Combining taken) {
  Step step;
  step.kind = Step::Kind::send;
  step.combining = taken;
  step.slice = slice;
  step.first = count_of(plan_.edges.size());
  step.count = count_of(edges.size());
  for (const std::uint32_t edge : edges) {
    invariant(edge < plan_.out_degree, "a send names an out-edge");
    plan_.edges.push_back(edge);
  }
  plan_.steps.push_back(step);
  return count_of(plan_.steps.size() - 1);
}

void PlanBuilder::combine(Combining combining, Slice slice, const std::vector<Operand>& operands,
                          const std::vector<std::uint32_t>& hazards) {
  Step step;
  step.kind = Step::Kind::combine;
  step.combining = combining;
  step.slice = slice;
  step.first = count_of(plan_.operands.size());
  step.count = count_of(operands.size());
  step.hazard_first = count_of(plan_.hazards.size());
  step.hazard_count = count_of(hazards.size());
  plan_.operands.insert(plan_.operands.end(), operands.begin(), operands.end());
  for (const std::uint32_t hazard : hazards) {
    invariant(hazard < plan_.steps.size(), "a hazard is an earlier step");
    invariant(plan_.steps[hazard].kind == Step::Kind::send, "a hazard is a send");
    plan_.hazards.push_back(hazard);
  }
  plan_.steps.push_back(step);
}

void PlanBuilder::combine_whole(Combining combining, Slice slice,
                                const std::vector<Operand>& operands) {
  combine(combining, slice, operands);
  plan_.steps.back().is_whole = true;
}

void PlanBuilder::keep_to_rail(std::uint32_t edge, int rail) {
  plan_.rails.resize(plan_.out_degree, kAnyRail);
  plan_.rails[edge] = rail;
}

Plan PlanBuilder::finish(std::string reason) && {
  plan_.reason = std::move(reason);
  plan_.is_one_round = is_one_round(plan_);
  // Plans are kept: by a context one for each shape, by a simulation one for each rank.
  plan_.steps.shrink_to_fit();
  plan_.edges.shrink_to_fit();
  plan_.operands.shrink_to_fit();
  plan_.hazards.shrink_to_fit();
  return std::move(plan_);
}

std::vector<std::uint32_t> every_edge(const std::vector<Rank>& peers) {
  std::vector<std::uint32_t> edges(peers.size());
  std::iota(edges.begin(), edges.end(), 0U);
  return edges;
}

std::uint32_t edge_to(const std::vector<Rank>& peers, Rank peer) {
  const auto found = std::lower_bound(peers.begin(), peers.end(), peer);
  invariant(found != peers.end(), "the peer is in the list");
  invariant(*found == peer, "the peer is in the list");
  return static_cast<std::uint32_t>(found - peers.begin());
}

View sorted(View view) {
  for (std::vector<Rank>* const peers : {&view.in, &view.out}) {
    std::ranges::sort(*peers);
    const auto repeated = std::ranges::unique(*peers);
    peers->erase(repeated.begin(), repeated.end());
  }
  return view;
}

View symmetric_view(Rank rank, int size, std::vector<Rank> peers) {
  std::sort(peers.begin(), peers.end());
  return {rank, size, peers, peers};
}

View complete_view(Rank rank, int size) {
  std::vector<Rank> others;
  for (Rank peer = 0; peer < size; ++peer) {
    if (peer != rank) others.push_back(peer);
  }
  return symmetric_view(rank, size, std::move(others));
}

Rank behind(Rank rank, int hops, int size) {
  return (rank + size - hops % size) % size;
}

std::vector<Rank> others_clockwise(Rank rank, int size) {
  std::vector<Rank> others;
  for (int hop = 1; hop < size; ++hop) others.push_back((rank + hop) % size);
  return others;
}

Slice blocks_of(Buffer buffer, std::uint32_t first, std::uint32_t last) {
  return {buffer, first, last};
}

Slice block_of(Buffer buffer, std::uint32_t block) {
  return {buffer, block, block + 1};
}

Slice block_of(Buffer buffer, Rank owner) {
  return block_of(buffer, static_cast<std::uint32_t>(owner));
}

Operand local(Slice slice, Weight weight) {
  Operand operand;
  operand.kind = Operand::Kind::local;
  operand.slice = slice;
  operand.weight = weight;
  return operand;
}

Operand message(std::uint32_t edge, Weight weight) {
  Operand operand;
  operand.kind = Operand::Kind::message;
  operand.edge = edge;
  operand.weight = weight;
  return operand;
}

std::vector<Operand> in_rank_order(const View& view, const Operand& own, Weight::Kind messages) {
  std::vector<Operand> operands;
  operands.reserve(view.in.size() + 1);
  for (const std::uint32_t edge : every_edge(view.in)) {
    if (operands.size() == edge && view.in[edge] > view.rank) operands.push_back(own);
    operands.push_back(message(edge, {messages, messages == Weight::Kind::edge ? edge : 0}));
  }
  if (operands.size() == view.in.size()) operands.push_back(own);
  return operands;
}

}  // namespace weft
