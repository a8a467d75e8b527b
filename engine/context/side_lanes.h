// side_lanes: the lanes of a context beside the first one, and the cutting of large operations over
// all lanes.
//
// A rank says in its machine record how many lanes it could have (lane_count.h), and all ranks use
// as many as the rank with the fewest. The records are read, and lanes are opened, by the first
// operation that is large enough to be cut. A job without such operations has one lane and reads
// nothing. Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/context/cutting.h"
#include "engine/context/side_lane.h"
#include "engine/job/job.h"

namespace weft {

// Belongs to the holder of the first lane's token, except wake(). The destructor closes the lanes.
class SideLanes {
 public:
  // Opens the lane of that number, from 1.
  using Open = std::function<Result<std::unique_ptr<SideLane>>(std::size_t number)>;
  using Parts = std::vector<std::shared_ptr<Operation>>;

  // `most`: how many lanes this rank could have, the first one included.
  SideLanes(const Config& config, MachineTable& machines, std::size_t most, Open open)
      : config_(config), machines_(machines), most_(most), open_(std::move(open)) {}
  ~SideLanes() { close(); }
  SideLanes(const SideLanes&) = delete;
  SideLanes& operator=(const SideLanes&) = delete;

  // If the operation is large, narrows it to the first lane's part and returns the parts of the
  // other lanes, to be posted when the operation was admitted.
  [[nodiscard]] Result<Parts> cut(const std::shared_ptr<Operation>& operation) {
    const Call& call = operation->bound_call.call;
    if (stripes_of(call, most_) == 1) return Parts();
    return cut_large(operation);
  }
  // Gives the lanes their parts of the operation with that number.
  void post(const Parts& parts, std::uint64_t number);

  [[nodiscard]] std::size_t most() const { return most_; }
  [[nodiscard]] bool are_idle() const;
  void wake();
  void close();
  [[nodiscard]] const std::vector<std::unique_ptr<SideLane>>& all() const { return lanes_; }
  // For people, on how many lanes large operations run; empty: on one.
  [[nodiscard]] std::string describe() const;

 private:
  [[nodiscard]] Result<Parts> cut_large(const std::shared_ptr<Operation>& operation);
  [[nodiscard]] Status open(std::size_t lanes);

  const Config& config_;
  MachineTable& machines_;
  const std::size_t most_;
  const Open open_;
  std::mutex mutex_;                              // guards lanes_ between insertion and wake()
  std::vector<std::unique_ptr<SideLane>> lanes_;  // lane 1, lane 2, …
};

}  // namespace weft
