// machine_shares: see the header.
#include "scheduler/plan/machine_shares.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace weft {
namespace {

// Blocks cost nothing by themselves, as messages are as long as segments; but the verifier has an
// element for each. Machines of up to 12 ranks always get by with 27720.
constexpr std::int64_t kMostBlocks = 1 << 16;

std::vector<int> different(std::vector<int> counts) {
  std::ranges::sort(counts);
  const auto repeated = std::ranges::unique(counts);
  counts.erase(repeated.begin(), repeated.end());
  return counts;
}

std::vector<int> counts_of(const Layout& layout) {
  std::vector<int> counts(static_cast<std::size_t>(layout.machines()), 0);
  for (const int machine : layout.machine) ++counts[static_cast<std::size_t>(machine)];
  return counts;
}

// Stops above the bound, long before it could overflow.
std::int64_t common_blocks(const std::vector<int>& counts) {
  std::int64_t blocks = 1;
  for (const int count : counts) {
    if (blocks <= kMostBlocks) blocks = std::lcm(blocks, std::int64_t{count});
  }
  return blocks;
}

}  // namespace

Status check_machine_numbers(const Layout& layout) {
  int next = 0;
  for (std::size_t rank = 0; rank < layout.machine.size(); ++rank) {
    const int machine = layout.machine[rank];
    if (machine < 0 || machine > next) {
      return {Code::invalid_argument,
              fmt::format("rank {} cannot be on machine {}: machines are numbered by their lowest "
                          "rank, and the next one is {}",
                          rank, machine, next),
              static_cast<Rank>(rank)};
    }
    next = std::max(next, machine + 1);
  }
  return {};
}

Status MachineShares::check(const Layout& layout) {
  WEFT_RETURN_IF_ERROR(check_machine_numbers(layout));
  const std::vector<int> counts = different(counts_of(layout));
  if (common_blocks(counts) <= kMostBlocks) return {};
  return {Code::invalid_argument,
          fmt::format("machines of {} ranks have no shares in common: no number up to {} is a "
                      "multiple of all",
                      fmt::join(counts, ", "), kMostBlocks)};
}

// Sorts the ranks by counting, which keeps them in order.
MachineShares::MachineShares(const Layout& layout) : machine_(layout.machine), first_{0} {
  invariant(!machine_.empty(), "the layout names every rank's machine");
  const std::vector<int> counts = counts_of(layout);
  std::partial_sum(counts.begin(), counts.end(), std::back_inserter(first_));
  ranks_.resize(machine_.size());
  std::vector<int> next(first_);
  for (Rank rank = 0; rank < std::ssize(machine_); ++rank) {
    const auto machine = static_cast<std::size_t>(machine_of(rank));
    ranks_[static_cast<std::size_t>(next[machine]++)] = rank;
  }
  counts_ = different(counts);
  const std::int64_t blocks = common_blocks(counts_);
  invariant(blocks <= kMostBlocks, "the machines have shares in common");
  blocks_ = static_cast<std::uint32_t>(blocks);
}

std::vector<Rank> MachineShares::ranks_of(int machine) const {
  return {ranks_.begin() + begin_of(machine), ranks_.begin() + begin_of(machine + 1)};
}

int MachineShares::place_of(Rank rank) const {
  const auto first = ranks_.begin() + begin_of(machine_of(rank));
  const auto last = ranks_.begin() + begin_of(machine_of(rank) + 1);
  return static_cast<int>(std::lower_bound(first, last, rank) - first);
}

std::string MachineShares::text() const {
  if (counts_.size() == 1) return fmt::format("{} ranks", counts_.front());
  return fmt::format("{} to {} ranks", counts_.front(), counts_.back());
}

// Segments end where a share of any machine does.
std::vector<Slice> MachineShares::segments_of(Rank rank) const {
  const std::uint32_t share = share_blocks(machine_of(rank));
  const std::uint32_t first = static_cast<std::uint32_t>(place_of(rank)) * share;
  std::vector<std::uint32_t> cuts{first, first + share};
  for (const int count : counts_) {
    const std::uint32_t theirs = blocks_ / static_cast<std::uint32_t>(count);
    for (std::uint32_t at = (first / theirs + 1) * theirs; at < first + share; at += theirs) {
      cuts.push_back(at);
    }
  }
  std::ranges::sort(cuts);
  const auto repeated = std::ranges::unique(cuts);
  cuts.erase(repeated.begin(), repeated.end());
  std::vector<Slice> segments;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    segments.push_back(blocks_of(Buffer::output, cuts[i], cuts[i + 1]));
  }
  return segments;
}

Rank MachineShares::owner(int machine, const Slice& segment) const {
  const std::uint32_t place = segment.first / share_blocks(machine);
  return ranks_[static_cast<std::size_t>(begin_of(machine)) + place];
}

TensorPart inside_machine(const MachineShares& shares, Rank rank, std::uint32_t blocks, Shape shape,
                          TensorPart::Sums sums) {
  TensorPart::Stage stage{TensorPart::Passing::direct, shares.ranks_of(shares.machine_of(rank)),
                          shares.place_of(rank)};
  return {blocks_of(Buffer::input, 0, blocks), {std::move(stage)}, shape, sums};
}

namespace {

// The machines `to`, beginning with those after ours: not everybody's first message goes to
// machine 0.
std::vector<std::uint32_t> edges_to(const View& view, const SharesExchange& exchange,
                                    const Slice& segment) {
  const int own = exchange.shares->machine_of(view.rank);
  std::vector<std::uint32_t> edges;
  for (const int machine : exchange.to) {
    edges.push_back(edge_to(view.out, exchange.shares->owner(machine, segment)));
  }
  const auto next = std::ranges::upper_bound(exchange.to, own) - exchange.to.begin();
  std::ranges::rotate(edges, edges.begin() + next);
  return edges;
}

std::vector<Operand> in_machine_order(const View& view, const SharesExchange& exchange,
                                      const Slice& segment) {
  const Slice own = blocks_of(exchange.own, segment.first, segment.last);
  std::vector<Operand> operands;
  for (const int machine : exchange.from) {
    const Rank peer = exchange.shares->owner(machine, segment);
    const std::uint32_t edge = edge_to(view.in, peer);
    const bool has_weight = exchange.others == Weight::Kind::edge;
    operands.push_back(message(edge, {exchange.others, has_weight ? edge : 0}));
  }
  const auto place =
      std::ranges::upper_bound(exchange.from, exchange.shares->machine_of(view.rank)) -
      exchange.from.begin();
  operands.insert(operands.begin() + place, local(own, {exchange.self, 0}));
  return operands;
}

}  // namespace

void exchange_shares(PlanBuilder& plan, const View& view, const SharesExchange& exchange) {
  const std::vector<Slice> segments = exchange.shares->segments_of(view.rank);
  for (const Slice& segment : segments) {
    if (exchange.to.empty()) break;
    plan.send(blocks_of(exchange.own, segment.first, segment.last),
              edges_to(view, exchange, segment), exchange.combining);
  }
  for (const Slice& segment : segments) {
    const Slice sums = blocks_of(Buffer::output, segment.first, segment.last);
    const std::vector<Operand> terms = in_machine_order(view, exchange, segment);
    if (exchange.combining == Combining::reduce) {
      plan.combine_whole(exchange.combining, sums, terms);
    } else {
      plan.combine(exchange.combining, sums, terms);
    }
  }
}

void add_share_peers(View& view, const SharesExchange& exchange) {
  for (const Slice& segment : exchange.shares->segments_of(view.rank)) {
    for (const int machine : exchange.from) {
      view.in.push_back(exchange.shares->owner(machine, segment));
    }
    for (const int machine : exchange.to) {
      view.out.push_back(exchange.shares->owner(machine, segment));
    }
  }
}

namespace {

int own_rail(Rank rank, const MachineShares& shares, const Layout& layout) {
  if (layout.rails < 2) return kAnyRail;
  const int machine = shares.machine_of(rank);
  const int ranks = shares.ranks_on(machine);
  const auto near = [&layout](Rank each) { return layout.near[static_cast<std::size_t>(each)]; };
  const auto is_near_one = [&near](Rank each) { return near(each) != kAnyRail; };
  if (!layout.near.empty() && std::ranges::any_of(shares.ranks_of(machine), is_near_one))
    return near(rank);
  if (ranks % layout.rails != 0) return kAnyRail;
  return shares.place_of(rank) / (ranks / layout.rails);
}

}  // namespace

void keep_to_near_rail(PlanBuilder& plan, const View& view, const MachineShares& shares,
                       const Layout& layout) {
  const int machine = shares.machine_of(view.rank);
  const int rail = own_rail(view.rank, shares, layout);
  if (rail == kAnyRail) return;
  for (std::uint32_t edge = 0; edge < view.out.size(); ++edge) {
    if (shares.machine_of(view.out[edge]) != machine) plan.keep_to_rail(edge, rail);
  }
}

}  // namespace weft
