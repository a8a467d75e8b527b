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

// A network interface that a rank has opened.
struct RailRecord {
  std::string kind;       // of network: "ib", "ucx"
  std::string interface;  // "mlx5_0", "eth0": what ranks of one machine know it by
  std::string rail;       // what ranks of different machines know it by; empty: by its place alone
  int far = 0;            // from where the rank works: how_far() in topology/rails
  int mbit_per_s = -1;    // -1: not told
  friend bool operator==(const RailRecord&, const RailRecord&) = default;
};

// What a rank says of its machine. As text a line "IDENTITY POLICY RAILS", one for each of so many
// rails, "KIND FAR MBIT INTERFACE RAIL", and the name.
struct MachineRecord {
  std::uint64_t identity = 0;  // equal on ranks of one machine
  RailPolicy policy = RailPolicy::automatic;
  std::vector<RailRecord> rails;  // in the order of the bond's members
  std::string name;               // for people
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
  // By rank: the rails that it uses, ascending, by their place in its record. Those of each kind
  // that reach another machine are shared out to the ranks of a machine as RailPolicy says, where
  // these have opened the same; else a rank uses all of them.
  std::vector<std::vector<int>> used;

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

// `mismatch` names two ranks that do not share out their rails by one policy.
[[nodiscard]] Status check_policies(std::span<const MachineRecord> records);

// From the records of all ranks, by rank. Machines are numbered by their lowest rank. Rails are
// those of the kind that ranks use between each other, the first that all have, as many as the rank
// with the fewest has that reach another machine; 1 where nothing is known. Layout::near is told
// where all ranks have such rails of the same names and some need not use all.
[[nodiscard]] Machines machines_of(std::span<const MachineRecord> records);

}  // namespace weft
