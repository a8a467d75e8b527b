// machine_table: which ranks are on which machine. Every rank puts one record into the store when it
// joins. The others read the records when something first needs them, a get for each rank, once in the
// life of a context; so jobs that never ask pay for the one put. Nobody waits here for a rank that has
// joined. Internal to the module.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/context/machines.h"
#include "engine/context/roster.h"

namespace weft {

// Belongs to the holder of the lane's token. What it knows stays where it is for as long as it lives.
class MachineTable {
 public:
  // `on_read` is called once, when the records of all ranks are there: ok, or `mismatch` where two
  // ranks do not share out their rails by one policy.
  MachineTable(const Config& config, const Roster& roster, std::uint16_t context,
               std::function<void(const Status&)> on_read);

  // Puts this rank's record.
  [[nodiscard]] Status tell(MachineRecord own, std::vector<RailRecord> rails) const;

  // Reads what is missing. `timed_out` where a rank has not joined by Config::deadline_ms.
  [[nodiscard]] Result<const Machines*> get() {
    return read_by(Deadline::after_ms(config_.deadline_ms));
  }
  [[nodiscard]] Result<const Machines*> read_by(Deadline deadline);
  // Without reading; nullptr: not known yet.
  [[nodiscard]] const Machines* known() const { return machines_ ? &*machines_ : nullptr; }
  // The ranks whose record was read, from rank 0 on.
  [[nodiscard]] std::size_t ranks_read() const { return records_.size(); }
  // Whether these machines allow hierarchical operations; once they are known.
  [[nodiscard]] const Status& hierarchical() const { return hierarchical_; }

  // What an allreduce by this algorithm is planned for. Without networks all ranks are on one
  // machine, and nobody need be asked. The same is found where all ranks are on one machine although
  // networks are there, so all ranks plan alike.
  [[nodiscard]] Result<const Layout*> layout_for(AllreduceAlgorithm algorithm);

 private:
  [[nodiscard]] std::string key_of(Rank rank) const;

  const Config& config_;
  const Roster& roster_;
  const std::uint16_t context_;
  const std::function<void(const Status&)> on_read_;
  std::vector<MachineRecord> records_;
  std::optional<Machines> machines_;
  Status hierarchical_;
};

}  // namespace weft
