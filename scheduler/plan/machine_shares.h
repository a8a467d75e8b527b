// machine_shares: which rank of a machine has which share of the tensor, so that machines exchange
// share by share: what the hierarchical operations have in common. Internal.
//
// The tensor is cut in as many blocks as the least common multiple B of the machines' rank counts:
// of a machine with L ranks the l-th has the blocks l B/L … (l+1) B/L - 1. A segment is a run of
// blocks that has one owner on every machine. Where all machines have as many ranks, a share is one
// segment, and its owners are those with the same place on their machines.
//
// Values, of cost linear in the ranks. A MachineShares is immutable.
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
  // Of a layout that names all ranks' machines and that check() allows.
  explicit MachineShares(const Layout& layout);
  // Whether all machines can be served by blocks of one size, and what is wrong with those that
  // cannot.
  [[nodiscard]] static Status check(const Layout& layout);

  [[nodiscard]] int ranks() const { return static_cast<int>(machine_.size()); }
  [[nodiscard]] int machines() const { return static_cast<int>(first_.size()) - 1; }
  [[nodiscard]] int machine_of(Rank rank) const { return machine_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int ranks_on(int machine) const {
    return begin_of(machine + 1) - begin_of(machine);
  }
  // Ascending.
  [[nodiscard]] std::vector<Rank> ranks_of(int machine) const;
  // A rank's place among those of its machine.
  [[nodiscard]] int place_of(Rank rank) const;
  // "4 ranks", "2 to 8 ranks": how many the machines have.
  [[nodiscard]] std::string text() const;

  [[nodiscard]] std::uint32_t blocks() const { return blocks_; }
  // The segments of a rank's share, in order. Slices of no particular buffer.
  [[nodiscard]] std::vector<Slice> segments_of(Rank rank) const;
  [[nodiscard]] Rank owner(int machine, const Slice& segment) const;

 private:
  [[nodiscard]] int begin_of(int machine) const {
    return first_[static_cast<std::size_t>(machine)];
  }
  // Of one rank's share on a machine.
  [[nodiscard]] std::uint32_t share_blocks(int machine) const {
    return blocks_ / static_cast<std::uint32_t>(ranks_on(machine));
  }

  std::vector<int> machine_;  // by rank
  std::vector<int> first_;    // by machine, and one more: where its ranks begin in ranks_
  std::vector<Rank> ranks_;   // by machine, then ascending
  std::vector<int> counts_;   // the different numbers of ranks, ascending
  std::uint32_t blocks_ = 1;
};

// A tensor of `blocks` blocks, reduced to our share among the ranks of our machine, and gathered.
[[nodiscard]] TensorPart inside_machine(const MachineShares& shares, Rank rank,
                                        std::uint32_t blocks, Shape shape, TensorPart::Sums sums);

// An exchange of shares between machines. Weight::Kind::edge of the others is that of the in-edge
// from whoever owns the segment there.
struct SharesExchange {
  const MachineShares* shares;
  Buffer own;                 // where our share is before; nobody writes there any more
  std::vector<int> from, to;  // machines, ascending, without our own
  Combining combining;
  Weight::Kind self, others;
};

// The output's blocks of our share := our share and those of the machines `from`, in the order of
// the machines, segment by segment.
void exchange_shares(PlanBuilder& plan, const View& view, const SharesExchange& exchange);
// The rank's edges to other machines over the rail that is near it; where no distances are known on
// its machine, over a rail of its own, or one that as many ranks share as any other; where that does
// not come out even, over all.
void keep_to_near_rail(PlanBuilder& plan, const View& view, const MachineShares& shares,
                       const Layout& layout);
// Adds whom exchange_shares() talks to; in no order.
void add_share_peers(View& view, const SharesExchange& exchange);

}  // namespace weft
