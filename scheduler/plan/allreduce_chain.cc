// allreduce, chain: the sum in rank order between machines of several ranks, where machine k has the ranks that
// follow those of machine k-1. Each local rank has a share. The owner of a share on machine 0 adds up what its
// machine's ranks have of it and passes the sum on; the owner on the next machine adds its ranks' inputs, one
// after the other, and so on. The last machine has the whole, which goes back the same way, and each machine
// gathers it inside. So a byte crosses the network once per machine and direction, as in a hierarchical
// allreduce, and still each element is x_0 + x_1 + x_2 + ….
//
// A share is cut in pieces that follow one another, so that all machines are busy at once, in both directions.
//
// What is passed on is a sum that was rounded to the type of the elements. So types that are summed in a wider
// one (Shape::is_narrow) cannot take this way.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "scheduler/plan/allreduce_algorithms.h"
#include "scheduler/plan/machine_shares.h"

namespace weft {
namespace {

constexpr Weight kScale{Weight::Kind::scale, 0};
// What a rail carries while a message travels, as in allreduce_choice.cc.
constexpr std::size_t kWaitBytes = 64 << 10;
constexpr double kMostPieces = 16;

// With p pieces a message is M/p, and 2(K-1) of them are under way before the first result is back.
std::uint32_t pieces_of(std::size_t bytes, int machines) {
  const double hops = 2.0 * (machines - 1);
  const double best = std::sqrt(hops * static_cast<double>(bytes) / kWaitBytes);
  return static_cast<std::uint32_t>(std::clamp(std::round(best), 1.0, kMostPieces));
}

class Chain {
 public:
  Chain(Rank rank, Shape shape, const MachineShares& shares, std::uint32_t pieces)
      : rank_(rank),
        in_place_(shape.in_place),
        shares_(shares),
        machine_(shares.machine_of(rank)),
        pieces_(pieces),
        members_(shares.ranks_of(machine_)),
        segments_(shares.segments_of(rank)),
        view_{rank, shares.ranks(), {}, {}} {
    for (const Rank member : members_)
      if (member != rank) view_.out.push_back(member);
    for (const Slice& segment : segments_) {
      if (machine_ > 0) view_.out.push_back(shares.owner(machine_ - 1, segment));
      if (!is_last()) view_.out.push_back(shares.owner(machine_ + 1, segment));
    }
    view_.in = view_.out;  // whom a rank tells a part of the sum, it hears the result from
    view_ = sorted(std::move(view_));
  }

  [[nodiscard]] const View& view() const { return view_; }

  void plan(PlanBuilder& plan) {
    plan.partition_evenly(shares_.blocks() * pieces_);
    if (!is_last())
      plan.partition(Buffer::scratch, Partition::Kind::even, shares_.blocks() * pieces_);
    give_inputs(plan);
    for (std::uint32_t piece = 0; piece < pieces_; ++piece)
      for (const Slice& segment : segments_) add_up(plan, segment, piece);
    for (std::uint32_t piece = 0; piece < pieces_ && !is_last(); ++piece)
      for (const Slice& segment : segments_) pass_back(plan, segment, piece);
    take_results(plan);
  }

 private:
  [[nodiscard]] bool is_last() const { return machine_ + 1 == shares_.machines(); }
  // The only rank of the first machine has nothing to add up, and passes on its input.
  [[nodiscard]] bool passes_input() const { return machine_ == 0 && members_.size() == 1; }
  [[nodiscard]] Slice piece_of(Buffer buffer, const Slice& segment, std::uint32_t piece) const {
    const std::uint32_t blocks = segment.last - segment.first;
    const std::uint32_t first = segment.first * pieces_ + piece * blocks;
    return blocks_of(buffer, first, first + blocks);
  }
  [[nodiscard]] std::uint32_t edge_out(Rank peer) const { return edge_to(view_.out, peer); }
  [[nodiscard]] std::uint32_t edge_in(Rank peer) const { return edge_to(view_.in, peer); }
  // The other members, beginning with the next one.
  [[nodiscard]] std::vector<Rank> others() const {
    const auto own = static_cast<std::size_t>(shares_.place_of(rank_));
    std::vector<Rank> others;
    for (std::size_t hop = 1; hop < members_.size(); ++hop)
      others.push_back(members_[(own + hop) % members_.size()]);
    return others;
  }

  // To each other rank of the machine what this one has of its share.
  void give_inputs(PlanBuilder& plan) {
    for (std::uint32_t piece = 0; piece < pieces_; ++piece) {
      for (const Rank other : others()) {
        for (const Slice& segment : shares_.segments_of(other)) {
          given_.push_back(plan.send(piece_of(Buffer::input, segment, piece), {edge_out(other)},
                                     Combining::reduce));
        }
      }
    }
  }

  void add_up(PlanBuilder& plan, const Slice& segment, std::uint32_t piece) {
    if (passes_input()) {
      passed_.push_back(plan.send(piece_of(Buffer::input, segment, piece),
                                  {edge_out(shares_.owner(1, segment))}, Combining::reduce));
      return;
    }
    std::vector<Operand> terms;
    if (machine_ > 0) {
      const bool is_input = machine_ == 1 && shares_.ranks_on(0) == 1;
      terms.push_back(
          message(edge_in(shares_.owner(machine_ - 1, segment)), is_input ? kScale : Weight{}));
    }
    for (const Rank member : members_) {
      terms.push_back(member == rank_ ? local(piece_of(Buffer::input, segment, piece), kScale)
                                      : message(edge_in(member), kScale));
    }
    const Slice sum = piece_of(is_last() ? Buffer::output : Buffer::scratch, segment, piece);
    if (is_last()) {
      plan.combine_whole(Combining::reduce, sum, terms);
      give_result(plan, segment, sum);
    } else {
      plan.combine(Combining::reduce, sum, terms);
      plan.send(sum, {edge_out(shares_.owner(machine_ + 1, segment))}, Combining::reduce);
    }
  }

  // The result comes from the next machine. In place it overwrites this rank's own input, which was given to
  // nobody, unless it was passed on.
  void pass_back(PlanBuilder& plan, const Slice& segment, std::uint32_t piece) {
    std::vector<std::uint32_t> hazards;
    if (in_place_ && passes_input()) hazards.push_back(passed_[taken_back_++]);
    const Slice result = piece_of(Buffer::output, segment, piece);
    plan.combine(Combining::copy, result, {message(edge_in(shares_.owner(machine_ + 1, segment)))},
                 hazards);
    give_result(plan, segment, result);
  }

  // To the machine before this one, and to the other ranks here.
  void give_result(PlanBuilder& plan, const Slice& segment, const Slice& result) const {
    std::vector<std::uint32_t> edges;
    if (machine_ > 0) edges.push_back(edge_out(shares_.owner(machine_ - 1, segment)));
    for (const Rank other : others()) edges.push_back(edge_out(other));
    if (!edges.empty()) plan.send(result, edges);
  }

  // The results of the other ranks' shares. They were made from what this rank gave, so the hazards never wait.
  void take_results(PlanBuilder& plan) {
    std::size_t given = 0;
    for (std::uint32_t piece = 0; piece < pieces_; ++piece) {
      for (const Rank other : others()) {
        for (const Slice& segment : shares_.segments_of(other)) {
          const std::uint32_t hazard = given_[given++];
          plan.combine(Combining::copy, piece_of(Buffer::output, segment, piece),
                       {message(edge_in(other))},
                       in_place_ ? std::vector{hazard} : std::vector<std::uint32_t>{});
        }
      }
    }
  }

  const Rank rank_;
  const bool in_place_;
  const MachineShares& shares_;
  const int machine_;
  const std::uint32_t pieces_;
  const std::vector<Rank> members_;
  const std::vector<Slice> segments_;
  View view_;
  std::vector<std::uint32_t> given_;   // sends of inputs, in the order of give_inputs()
  std::vector<std::uint32_t> passed_;  // the same of inputs that were passed on
  std::size_t taken_back_ = 0;         // of those
};

}  // namespace

bool is_chain_better(int size, std::size_t bytes, Shape shape, const Layout& layout) {
  const int machines = layout.machines();
  if (machines < 2 || machines == size || shape.is_narrow ||
      !std::ranges::is_sorted(layout.machine) || !MachineShares::check(layout).ok())
    return false;
  // Without it each rank's input crosses the network, with two waits.
  const double saved = static_cast<double>(bytes) * (static_cast<double>(size) / machines - 1);
  return saved > static_cast<double>(kWaitBytes) * machines;
}

Planned plan_allreduce_chain(Rank rank, std::size_t bytes, Shape shape, const Layout& layout,
                             const std::string& reason) {
  const MachineShares shares(layout);
  const std::uint32_t pieces = pieces_of(bytes, shares.machines());
  Chain chain(rank, shape, shares, pieces);
  PlanBuilder plan("allreduce", "chain", chain.view());
  chain.plan(plan);
  keep_to_near_rail(plan, chain.view(), shares, layout);
  return {chain.view(),
          std::move(plan).finish(fmt::format("{}; {} machines of {} pass the sum on, in {} pieces",
                                             reason, shares.machines(), shares.text(), pieces))};
}

}  // namespace weft
