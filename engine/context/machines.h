// machines: which rank of a context is on which machine, as all of its ranks find it from what each
// has said of itself. Values and pure functions, any thread may call. Internal to the module.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/plan/plan.h"
#include "topology/rails/rails.h"
#include "verbs/base/base.h"

namespace weft {

// How far a rail's interface is from where a rank works (how_far() in topology/rails) and how fast
// it is; -1: not told.
struct RailDistance {
  int far = 0;
  int mbit_per_s = -1;
  friend bool operator==(const RailDistance&, const RailDistance&) = default;
};

// What a rank says of its machine: "IDENTITY POLICY RDMA-RAILS UCX-RAILS NAME" as text, the rails
// as "FAR:MBIT,…" or "-" for none.
struct MachineRecord {
  std::uint64_t identity = 0;  // equal on ranks of one machine
  RailPolicy policy = RailPolicy::automatic;
  // That the rank has opened, by their kind, in the order of the rails' names.
  std::vector<RailDistance> ib, ucx;
  std::string name;  // for people
  friend bool operator==(const MachineRecord&, const MachineRecord&) = default;

  [[nodiscard]] std::string to_text() const;
};
// `mismatch`: not a record.
[[nodiscard]] Result<MachineRecord> machine_record(std::string_view text);

// This machine: the kernel's host name and boot, or what the user calls it (Config::host).
[[nodiscard]] MachineRecord this_machine(const std::string& host);

struct Machines {
  Layout layout;
  std::vector<std::vector<Rank>> ranks;  // of each machine, ascending
  std::vector<std::string> names;
  // The rails of one kind that a rank has opened, and which of them it uses; none: all. They are
  // shared out to the ranks of each machine as RailPolicy says, where these have the same ones.
  struct Used {
    int opened = 0;
    std::vector<int> rails;  // ascending
  };
  struct RailsOfRank {
    Used ib, ucx;
  };
  std::vector<RailsOfRank> rails;  // by rank
  // Those of `rank` that carry what it sends to `peer`: used by both, where both have opened as
  // many; none: all.
  [[nodiscard]] std::vector<int> used_between(Rank rank, Rank peer, Used RailsOfRank::*kind) const;

  [[nodiscard]] int count() const { return static_cast<int>(ranks.size()); }
  [[nodiscard]] const std::vector<Rank>& ranks_beside(Rank rank) const {
    return ranks[static_cast<std::size_t>(layout.machine_of(rank))];
  }
  // Where the rank is among the ranks of its machine.
  [[nodiscard]] int place_of(Rank rank) const;
  // Whether all machines have the same number of ranks.
  [[nodiscard]] bool is_homogeneous() const;
  // One line for people; of many machines the first few.
  [[nodiscard]] std::string describe() const;
};

// From the records of all ranks, by rank. Machines are numbered by their lowest rank. Rails are
// those of the kind that ranks use between each other, the first that all have, as many as the rank
// with the fewest has; 1 where nothing is known. Layout::near is told where all ranks have the same
// number of them and some need not use all.
[[nodiscard]] Machines machines_of(std::span<const MachineRecord> records);

}  // namespace weft
