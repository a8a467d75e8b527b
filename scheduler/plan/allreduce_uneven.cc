// allreduce, uneven: for machines of which some have less of their rails left than others. As in split, each
// machine sums a piece of everybody's input and sends the sum to all, but the pieces are not equal. A machine
// whose piece has the part w of M sends M (1 + (K-2) w) in all, of K machines, and receives as much. So one
// that has lost a rail gets a smaller piece, or none, and sends M alone where equal pieces cost 2 M (K-1)/K.
//
// A machine without a piece sends first and receives later. So that both go on at the same time, M is cut into
// turns, and the sums of one turn travel with what the next ones sum. Ranks of one machine reduce to shares
// first, and gather them at the end, as in hierarchical.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "scheduler/plan/allreduce_algorithms.h"
#include "scheduler/plan/builder.h"
#include "scheduler/plan/machine_shares.h"

namespace weft {
namespace {

// A turn in which a machine gets less than this from each other one is mostly waiting.
constexpr std::size_t kTurnBytes = std::size_t{256} << 10;
constexpr std::size_t kMostTurns = 16;
// Every machine sends to every other one.
constexpr int kMostMachines = 64;
// Units into which a block is cut, for each machine. A piece is some of them.
constexpr std::uint32_t kUnits = 16;
// What must be gained: rates change, and this plan has more edges than the usual ones.
constexpr double kLeastGain = 1.1;

std::vector<double> left_by_machine(const Layout& layout) {
  std::vector<double> left(static_cast<std::size_t>(layout.machines()), 1.0);
  for (std::size_t rank = 0; rank < layout.left.size(); ++rank) {
    double& least = left[static_cast<std::size_t>(layout.machine_of(static_cast<Rank>(rank)))];
    least = std::min(least, layout.left[rank]);
  }
  return left;
}

// The time of the best pieces, in units of that in which a whole machine sends M: a machine can have
// (t left - 1) / (K - 2) of M in time t.
double best_time(const std::vector<double>& left) {
  const double slowest = 1 / *std::ranges::min_element(left);
  const auto given = [&](double time) {
    double sum = 0;
    for (const double each : left) sum += std::max(0.0, time * each - 1);
    return sum;
  };
  const double wanted = static_cast<double>(left.size()) - 2;
  double low = slowest, high = 2 * slowest;  // at which equal pieces are possible
  if (given(low) >= wanted) return low;
  for (int halving = 0; halving < 40; ++halving) {
    const double middle = (low + high) / 2;
    (given(middle) >= wanted ? high : low) = middle;
  }
  return high;
}

class Uneven {
 public:
  Uneven(Rank rank, const Layout& layout, const UnevenPieces& pieces)
      : shares_(layout),
        cuts_(pieces.cuts),
        turns_(pieces.turns),
        rank_(rank),
        own_(shares_.machine_of(rank)),
        is_flat_(shares_.machines() == shares_.ranks()),
        segments_(shares_.segments_of(rank)) {}

  Planned plan(Shape shape, std::string reason) && {
    View view{rank_, shares_.ranks(), {}, {}};
    TensorPart inside = inside_machine(shares_, rank_, blocks(), shape, {.are_whole = false});
    if (!is_flat_) inside.add_peers(view);
    for (const Slice& segment : segments_) add_peers(view, segment);
    view = sorted(std::move(view));

    PlanBuilder plan("allreduce", "uneven", view);
    plan.partition_evenly(blocks());
    if (!is_flat_) inside.make_move(plan, view, 0);
    exchange(plan, view, shape);
    if (!is_flat_) inside.make_move(plan, view, 1);
    return {std::move(view), std::move(plan).finish(std::move(reason))};
  }

 private:
  [[nodiscard]] std::uint32_t units() const { return cuts_.back(); }
  [[nodiscard]] std::uint32_t blocks() const { return shares_.blocks() * turns_ * units(); }
  [[nodiscard]] bool has_piece(int machine) const {
    return cuts_[static_cast<std::size_t>(machine)] != cuts_[static_cast<std::size_t>(machine) + 1];
  }
  // What a machine sums of a segment in a turn.
  [[nodiscard]] Slice piece(Buffer buffer, const Slice& segment, std::uint32_t turn,
                            int machine) const {
    const std::uint32_t length = segment.last - segment.first;
    const std::uint32_t first = (segment.first * turns_ + length * turn) * units();
    const auto at = [&](int cut) { return first + length * cuts_[static_cast<std::size_t>(cut)]; };
    return blocks_of(buffer, at(machine), at(machine + 1));
  }
  // The other machines, beginning with the next one.
  template <typename See>
  void for_others(See&& see) const {
    const int machines = shares_.machines();
    for (int hop = 1; hop < machines; ++hop) see((own_ + hop) % machines);
  }
  void add_peers(View& view, const Slice& segment) const {
    for_others([&](int machine) {
      if (!has_piece(own_) && !has_piece(machine)) return;
      view.in.push_back(shares_.owner(machine, segment));
      view.out.push_back(shares_.owner(machine, segment));
    });
  }

  // Inside of a machine the sums have been scaled, and stand in the output. Where a machine has one rank,
  // its input is sent as it is.
  void exchange(PlanBuilder& plan, const View& view, Shape shape) {
    source_ = is_flat_ ? Buffer::input : Buffer::output;
    overwrites_ = !is_flat_ || shape.in_place;
    send_raw(plan, view, 0);
    send_raw(plan, view, 1);
    for (std::uint32_t turn = 0; turn < turns_; ++turn) {
      sum(plan, view, turn);
      send_raw(plan, view, turn + 2);
      if (turn != 0) copy_sums(plan, view, turn - 1);
    }
    copy_sums(plan, view, turns_ - 1);
  }
  void send_raw(PlanBuilder& plan, const View& view, std::uint32_t turn) {
    if (turn >= turns_) return;
    sent_.emplace_back();
    for (const Slice& segment : segments_) {
      for_others([&](int machine) {
        if (!has_piece(machine)) return;
        sent_.back().push_back(plan.send(piece(source_, segment, turn, machine),
                                         {edge_to(view.out, shares_.owner(machine, segment))},
                                         Combining::reduce));
      });
    }
  }
  // Our own pieces were sent to nobody, so in place they may be overwritten at once.
  void sum(PlanBuilder& plan, const View& view, std::uint32_t turn) const {
    if (!has_piece(own_)) return;
    const Weight weight{is_flat_ ? Weight::Kind::scale : Weight::Kind::one, 0};
    for (const Slice& segment : segments_) {
      std::vector<Operand> terms;
      std::vector<std::uint32_t> edges;
      for (int machine = 0; machine < shares_.machines(); ++machine) {
        const Rank owner = shares_.owner(machine, segment);
        terms.push_back(machine == own_ ? local(piece(source_, segment, turn, own_), weight)
                                        : message(edge_to(view.in, owner), weight));
      }
      for_others([&](int machine) {
        edges.push_back(edge_to(view.out, shares_.owner(machine, segment)));
      });
      const Slice result = piece(Buffer::output, segment, turn, own_);
      plan.combine_whole(Combining::reduce, result, terms);
      plan.send(result, edges);
    }
  }
  // A sum may be written over what it was made of.
  void copy_sums(PlanBuilder& plan, const View& view, std::uint32_t turn) const {
    std::size_t place = 0;
    for (const Slice& segment : segments_) {
      for_others([&](int machine) {
        if (!has_piece(machine)) return;
        std::vector<std::uint32_t> hazards;
        if (overwrites_) hazards.push_back(sent_[turn][place]);
        ++place;
        plan.combine(Combining::copy, piece(Buffer::output, segment, turn, machine),
                     {message(edge_to(view.in, shares_.owner(machine, segment)))}, hazards);
      });
    }
  }

  const MachineShares shares_;
  const std::vector<std::uint32_t>& cuts_;
  const std::uint32_t turns_;
  const Rank rank_;
  const int own_;
  const bool is_flat_;
  const std::vector<Slice> segments_;  // of this rank's share
  Buffer source_ = Buffer::input;
  bool overwrites_ = false;
  std::vector<std::vector<std::uint32_t>> sent_;  // by turn: the steps that sent what others sum
};

}  // namespace

std::optional<UnevenPieces> uneven_pieces(std::size_t bytes, const Layout& layout) {
  const int machines = layout.machines();
  const std::size_t turns =
      std::min(kMostTurns, bytes / (kTurnBytes * static_cast<std::size_t>(machines)));
  if (layout.left.empty() || turns == 0 || machines < 3 || machines > kMostMachines ||
      !MachineShares::check(layout).ok())
    return std::nullopt;
  const std::vector<double> left = left_by_machine(layout);
  const double time = best_time(left);
  const double even = 2 * (machines - 1.0) / machines / *std::ranges::min_element(left);
  UnevenPieces pieces{.cuts = {0},
                      .turns = static_cast<std::uint32_t>(turns),
                      .time = time * (1 + 1.0 / static_cast<double>(turns)) / even};
  if (!(pieces.time * kLeastGain <= 1)) return std::nullopt;
  double sum = 0, all = 0;
  for (const double each : left) all += std::max(0.0, time * each - 1);
  const std::uint32_t units = kUnits * static_cast<std::uint32_t>(machines);
  for (const double each : left) {
    sum += std::max(0.0, time * each - 1);
    pieces.cuts.push_back(static_cast<std::uint32_t>(std::lround(sum / all * units)));
  }
  return pieces;
}

Planned plan_allreduce_uneven(Rank rank, std::size_t bytes, Shape shape, const Layout& layout,
                              const UnevenPieces& pieces) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i + 1 < pieces.cuts.size(); ++i)
    parts.push_back(fmt::format(
        "{:.0f} %", 100.0 * (pieces.cuts[i + 1] - pieces.cuts[i]) / pieces.cuts.back()));
  std::string reason = fmt::format(
      "{} bytes on {} ranks of {} machines: not all have all of their rails, so they sum pieces of "
      "{}, which "
      "takes {:.2f} of the time of equal ones",
      bytes, layout.machine.size(), layout.machines(), fmt::join(parts, ", "), pieces.time);
  return Uneven(rank, layout, pieces).plan(shape, std::move(reason));
}

}  // namespace weft
