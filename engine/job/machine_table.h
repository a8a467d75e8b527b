// machine_table: which ranks are on which machine. Every rank puts one record into the store when
// it joins. A rank reads the records of all ranks when something first needs them, with a get for
// each rank, once for each context. A job that never needs them pays only for the put. Reading
// waits only for ranks that have not joined.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/job/machines.h"
#include "engine/job/rank_map.h"

namespace weft {

// Belongs to the holder of the lane's token. Pointers to its Machines stay valid while it lives.
class MachineTable {
 public:
  // `on_read` is called when the records of all ranks have been read: with ok, or with `mismatch`
  // if two ranks have different rail policies.
  MachineTable(const Config& config, const RankMap& rank_map, std::uint16_t context,
               std::function<void(const Status&)> on_read);

  // Puts this rank's record.
  [[nodiscard]] Status tell(MachineRecord own, std::vector<RailRecord> rails) const;

  // The machines of all ranks. Reads the records that are missing. `timed_out` if a rank has not
  // joined within Config::deadline_ms.
  [[nodiscard]] Result<const Machines*> get() {
    return read_by(Deadline::after_ms(config_.deadline_ms));
  }
  [[nodiscard]] Result<const Machines*> read_by(Deadline deadline);
  // The machines, without reading records; nullptr: not known yet.
  [[nodiscard]] const Machines* known() const { return machines_ ? &*machines_ : nullptr; }
  // How many records have been read, those of ranks 0, 1, ….
  [[nodiscard]] std::size_t ranks_read() const { return records_.size(); }
  // ok, or why these machines do not allow hierarchical operations. The machines must be known.
  [[nodiscard]] const Status& hierarchical() const { return hierarchical_; }

  // The layout for which an allreduce by this algorithm is planned. Without networks all ranks are
  // on one machine, so no record is read unless the algorithm is made for machines or rails. With
  // networks, ranks that turn out to be on one machine get the same layout, so all ranks plan
  // alike.
  [[nodiscard]] Result<const Layout*> layout_for(AllreduceAlgorithm algorithm);
  // From now on the layout has this (Layout::left). Reads the records that are missing.
  [[nodiscard]] Status set_left(std::vector<double> left);
  // A number for what was set: part of the keys of plans. 0: nothing, or all is left.
  [[nodiscard]] std::uint32_t left_number() const { return left_number_; }

 private:
  [[nodiscard]] std::string key_of(Rank rank) const;

  const Config& config_;
  const RankMap& rank_map_;
  const std::uint16_t context_;
  const std::function<void(const Status&)> on_read_;
  std::vector<MachineRecord> records_;
  std::optional<Machines> machines_;
  std::map<std::vector<double>, std::uint32_t> lefts_ = {{{}, 0}};  // the numbers
  std::uint32_t left_number_ = 0;
  Status hierarchical_;
};

}  // namespace weft
