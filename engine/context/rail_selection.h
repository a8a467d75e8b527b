// rail_selection: which of this rank's network interfaces carry what goes to ranks of other machines.
// The ranks of a machine share its interfaces out by RailPolicy, which is known when all ranks have
// put their machine records; until then all rails carry. Internal to the module.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/context/machine_table.h"
#include "engine/execute/execute.h"

namespace weft {

// Belongs to the holder of the lane's token.
class RailSelection {
 public:
  // The rails that the rank has opened, by their numbers in the bond, and of each how near it is.
  RailSelection(const Config& config, MachineTable& machines, std::vector<RailRecord> rails,
                std::vector<std::string> reasons);

  [[nodiscard]] const std::vector<RailRecord>& opened() const { return rails_; }

  // Chooses for a contact, if what is needed for that is known by now. A mistake of the job is an
  // error; anything else that goes wrong is a warning, because every rail leads to the peer.
  [[nodiscard]] Status choose_to(Contact& contact);
  // The machines are known: chooses for a contact that was connected before.
  void choose_late(Contact& contact);
  // Asks again for machine records that were missing, if it is time to.
  [[nodiscard]] Status ask_again();

  // "uses rail 1: mlx5_1 and GPU 1 are below one PCI switch", a line each; none where all rails are
  // used or the choice is not made yet.
  [[nodiscard]] std::vector<std::string> describe() const;
  // Whether the choice waits for ranks that have not joined.
  [[nodiscard]] bool is_waiting() const { return ask_at_ns_ != 0; }

 private:
  [[nodiscard]] bool has_choice() const;
  [[nodiscard]] Status ask();
  void use_rails_to(Contact& contact) const;

  const Config& config_;
  MachineTable& machines_;
  const std::vector<RailRecord> rails_;
  const std::vector<std::string> reasons_;
  bool uses_all_ = false;         // for good: the machine records cannot be read
  std::int64_t ask_at_ns_ = 0;    // when missing records are asked for again; 0: nobody asked yet
  std::int64_t ask_wait_ns_ = 0;  // how long after the last time
};

}  // namespace weft
