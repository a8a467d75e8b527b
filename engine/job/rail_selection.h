// rail_selection: which of this rank's network interfaces are used to ranks of other machines.
// RailPolicy shares the interfaces of a machine out among its ranks. This needs the machine records
// of all ranks; until all are known, every rail is used.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/execute/execute.h"
#include "engine/job/machine_table.h"

namespace weft {

// Belongs to the holder of the lane's token.
class RailSelection {
 public:
  // `rails`: the rails that the rank has opened, in the order of the bond. `reasons`: for each
  // rail, a text that says how near it is.
  RailSelection(const Config& config, MachineTable& machines, std::vector<RailRecord> rails,
                std::vector<std::string> reasons);

  [[nodiscard]] const std::vector<RailRecord>& opened() const { return rails_; }

  // Chooses the rails to a connection if the machine records of all ranks are known. Records that
  // contradict each other are an error. If they cannot be read for another reason, a warning is
  // logged and all rails are used, because every rail leads to the peer.
  [[nodiscard]] Status choose_to(PeerConnection& connection);
  // Chooses for a connection that was connected before the machines were known. They must be known
  // now.
  void choose_late(PeerConnection& connection);
  // Reads missing machine records again, if the time of the next attempt has come.
  [[nodiscard]] Status ask_again();

  // A line for each rail that is used, such as "uses rail 1: mlx5_1 and GPU 1 are below one PCI
  // switch". No lines if all rails are used, or if the machines are not known yet.
  [[nodiscard]] std::vector<std::string> describe() const;
  // For each rail that leads to no other machine: "not eth1 (10.1.0.1/24): no other machine has this
  // network". No lines if the machines are not known yet.
  [[nodiscard]] std::vector<std::string> describe_lost() const;
  // Whether the choice waits for ranks that have not joined.
  [[nodiscard]] bool is_waiting() const { return ask_at_ns_ != 0; }

 private:
  [[nodiscard]] bool has_choice() const;
  [[nodiscard]] Status ask();
  void use_rails_to(PeerConnection& connection) const;

  const Config& config_;
  MachineTable& machines_;
  const std::vector<RailRecord> rails_;
  const std::vector<std::string> reasons_;
  bool uses_all_ = false;         // all rails, for good: the machine records cannot be read
  std::int64_t ask_at_ns_ = 0;    // when to read missing records again; 0: none was missing so far
  std::int64_t ask_wait_ns_ = 0;  // the time between the last attempt and ask_at_ns_
};

}  // namespace weft
