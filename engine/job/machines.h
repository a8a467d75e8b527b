// machines: which rank of a context is on which machine. Each rank describes its machine in a
// record, and all ranks compute the same answer from all records. Values and pure functions, which
// any thread may call.
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
  std::string kind;       // the kind of network: "ib", "ucx"
  std::string interface;  // its name on this machine: "mlx5_0", "eth0"
  std::string rail;       // its network, the same on all machines: "10.0.0.0/24"; empty: unknown
  int far = 0;            // the distance from the rank: how_far() in topology/rails
  int mbit_per_s = -1;    // -1: unknown
  std::string address{};  // on this machine: "10.0.0.1/24"; not part of the record's text
  friend bool operator==(const RailRecord&, const RailRecord&) = default;
};

// A rank's description of its machine. Its text is a line "IDENTITY POLICY LANES NCCL CORES TUNING RAILS",
// where RAILS is the number of rails, then a line "KIND FAR MBIT INTERFACE RAIL" for each rail, then the name.
struct MachineRecord {
  std::uint64_t identity = 0;  // equal on ranks of one machine
  RailPolicy policy = RailPolicy::automatic;
  std::vector<RailRecord> rails;  // in the order of the bond's members
  std::string name;               // for people
  int lanes = 1;                  // how many the rank could have
  bool nccl = false;              // it could use NCCL
  int cores = 1;                  // that the ranks of the machine share
  std::uint64_t tuning = 0;       // checksum of the profile and what plans depend on; 0: as usual
  friend bool operator==(const MachineRecord&, const MachineRecord&) = default;

  [[nodiscard]] std::string to_text() const;
};
// Reads a record from its text. `mismatch`: the text is not a record.
[[nodiscard]] Result<MachineRecord> machine_record(std::string_view text);

// The record of this machine, without rails. Its identity is made from `host` (Config::host), or,
// if that is empty, from the kernel's host name and boot id.
[[nodiscard]] MachineRecord this_machine(const std::string& host);

// What a profile of `weft tune` fits: ranks, machines, cores and rails, but no names and addresses.
struct JobTopology {
  std::string hash;   // 16 digits
  std::string about;  // for people
};

struct Machines {
  Layout layout;
  std::vector<std::vector<Rank>> ranks;  // of each machine, ascending
  std::vector<std::string> names;
  // By rank: the rails that it uses, as ascending indices into its record. If the ranks of a
  // machine have opened the same interfaces, RailPolicy shares them out among these ranks, for each
  // kind, and only those that reach another machine. Else a rank uses all of those.
  std::vector<std::vector<int>> used;
  // By rank: the bond's numbers (PathChoice::prefer_rail) of the rails to other machines that it uses;
  // empty if it has at most one.
  std::vector<std::vector<int>> used_numbers;
  // By rank: the rails that lead nowhere, as ascending indices into its record: no other machine has their
  // network, and others of their kind lead somewhere.
  std::vector<std::vector<int>> lost;
  // The rates of the rails that ranks use, in the order of `used_numbers`, each at the rank where it is slowest. Empty if a rate
  // is not known, or if ranks use different numbers of rails.
  std::vector<std::uint32_t> rail_rates;
  int lanes = 1;           // how many all ranks can have
  std::vector<bool> nccl;  // by machine: whether all of its ranks could use NCCL
  JobTopology topology;

  [[nodiscard]] int count() const { return static_cast<int>(ranks.size()); }
  [[nodiscard]] const std::vector<Rank>& ranks_beside(Rank rank) const {
    return ranks[static_cast<std::size_t>(layout.machine_of(rank))];
  }
  // The index of the rank among the ranks of its machine.
  [[nodiscard]] int place_of(Rank rank) const;
  // Whether all machines have the same number of ranks.
  [[nodiscard]] bool is_homogeneous() const;
  // One line for people; of many machines the first few.
  [[nodiscard]] std::string describe() const;
};

[[nodiscard]] JobTopology topology_of(std::span<const MachineRecord> records);

// `mismatch` names two ranks that have different rail policies or profiles.
[[nodiscard]] Status check_policies(std::span<const MachineRecord> records);

// Computes the machines from the records of all ranks, by rank. Machines are numbered by their
// lowest rank. Layout::rails and Layout::near are about rails of one kind, the first of "ib" and
// "ucx" that all ranks have. Layout::rails is the number of such rails that reach another machine,
// at the rank that has the fewest; 1 if no kind is common to all ranks. Layout::near is filled in
// if these rails have the same names at all ranks, and some rank uses just one of several.
[[nodiscard]] Machines machines_of(std::span<const MachineRecord> records);

}  // namespace weft
