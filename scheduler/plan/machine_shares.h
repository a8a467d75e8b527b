// machine_shares: which rank of a machine owns which share of the tensor. Hierarchical operations
// exchange shares between machines, from owner to owner. Internal.
//
// The tensor is cut into B blocks. B is the least common multiple of the machines' numbers of
// ranks. On a machine with L ranks, the l-th rank owns blocks l B/L … (l+1) B/L - 1. A segment is a
// run of consecutive blocks that has one owner on every machine. Example: on machines of 2 and of 3
// ranks, B is 6, and the segments are blocks 0-1, 2, 3 and 4-5. If all machines have the same
// number of ranks, each share is one segment, and its owners have the same local rank.
//
// Values; the cost is linear in the number of ranks. A MachineShares is immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/plan/tensor_part.h"

namespace weft {

// Machines must be numbered by their lowest rank.
[[nodiscard]] Status check_machine_numbers(const Layout& layout);

class MachineShares {
 public:
  // The layout names the machine of every rank, and check() has accepted it.
  explicit MachineShares(const Layout& layout);
  // Ok if blocks of one size fit all machines; else the error says which machines do not fit.
  [[nodiscard]] static Status check(const Layout& layout);

  [[nodiscard]] int ranks() const { return static_cast<int>(machine_.size()); }
  [[nodiscard]] int machines() const { return static_cast<int>(first_.size()) - 1; }
  [[nodiscard]] int machine_of(Rank rank) const { return machine_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int ranks_on(int machine) const {
    return begin_of(machine + 1) - begin_of(machine);
  }
  // Ascending.
  [[nodiscard]] std::vector<Rank> ranks_of(int machine) const;
  // The local rank.
  [[nodiscard]] int place_of(Rank rank) const;
  // "4 ranks", "2 to 8 ranks": how many the machines have.
  [[nodiscard]] std::string text() const;

  [[nodiscard]] std::uint32_t blocks() const { return blocks_; }
  // The segments of a rank's share, in order. Only the slices' block numbers count, not their
  // buffer.
  [[nodiscard]] std::vector<Slice> segments_of(Rank rank) const;
  [[nodiscard]] Rank owner(int machine, const Slice& segment) const;

 private:
  [[nodiscard]] int begin_of(int machine) const {
    return first_[static_cast<std::size_t>(machine)];
  }
  // Blocks in the share of each rank of a machine.
  [[nodiscard]] std::uint32_t share_blocks(int machine) const {
    return blocks_ / static_cast<std::uint32_t>(ranks_on(machine));
  }

  std::vector<int> machine_;  // by rank
  std::vector<int> first_;    // by machine, and the end: where its ranks begin in ranks_
  std::vector<Rank> ranks_;   // by machine, then ascending
  std::vector<int> counts_;   // the different numbers of ranks, ascending
  std::uint32_t blocks_ = 1;
};

// A tensor of `blocks` blocks, reduced inside our machine so that each rank holds its share, and
// gathered again inside the machine.
[[nodiscard]] TensorPart inside_machine(const MachineShares& shares, Rank rank,
                                        std::uint32_t blocks, Shape shape, TensorPart::Sums sums);

// An exchange of shares between machines. Where `others` is Weight::Kind::edge, it is the weight of
// the in-edge from the rank that owns the segment on the other machine.
struct SharesExchange {
  const MachineShares* shares;
  Buffer own;                 // where our share is before the exchange; not written during it
  std::vector<int> from, to;  // machines, ascending, without our own
  Combining combining;
  Weight::Kind self, others;
};

// For each segment of our share: output := our share combined with those of the machines `from`, in
// the order of the machines.
void exchange_shares(PlanBuilder& plan, const View& view, const SharesExchange& exchange);
// Chooses a rail for the rank's edges to other machines:
//  - the rail that is near the rank, if distances are known on its machine;
//  - else a rail of its own, or one that as many ranks share as any other rail;
//  - else, if ranks and rails do not divide evenly, all rails.
void keep_to_near_rail(PlanBuilder& plan, const View& view, const MachineShares& shares,
                       const Layout& layout);
// Adds the peers of exchange_shares() to the view, in no particular order.
void add_share_peers(View& view, const SharesExchange& exchange);

}  // namespace weft
