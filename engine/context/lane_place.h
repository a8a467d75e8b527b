// lane_place: where a lane's thread and the memory of its slots belong: beside its network
// interfaces, where these are all on one NUMA node of several. A card that writes to another node's
// memory, and a thread that polls there, cross the link between the sockets for every message.
// Internal to the module.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct LanePlace {
  int node = -1;           // memory is preferred here; -1: wherever the kernel puts it
  std::vector<int> cores;  // the thread runs on these alone; empty: on all that it may
  std::string reason;      // for people; empty: nothing to say, as the machine has one node
};

// Pure. `rail_nodes`: of each interface, -1: none is told. `nodes`: how many the machine has.
// `node_cores` of the first rail's node, `allowed` to this process: ascending.
[[nodiscard]] LanePlace place_lane(std::span<const int> rail_nodes, int nodes,
                                   std::span<const int> node_cores, std::span<const int> allowed);
// The same with what the kernel says of this machine.
[[nodiscard]] LanePlace place_lane_here(std::span<const int> rail_nodes,
                                        const std::string& sys = "/sys");

// "0-3,8" as the kernel lists cores and nodes. What is no such list ends it.
[[nodiscard]] std::vector<int> numbers_of(std::string_view list);

// Binds the calling thread to the place's cores.
Status bind_thread(const LanePlace& place);

// While it lives, what the calling thread touches first is put on a node, if that has room. Best
// effort: status() says what the kernel thought of it. Nothing for node -1.
class MemoryPreference {
 public:
  explicit MemoryPreference(int node);
  MemoryPreference(const MemoryPreference&) = delete;
  MemoryPreference& operator=(const MemoryPreference&) = delete;
  ~MemoryPreference();
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  static constexpr std::size_t kWords = 16;  // of a mask of nodes: 1024, as many as Linux has
  Status status_;
  bool is_set_ = false;
  int mode_ = 0;  // what there was before
  unsigned long mask_[kWords] = {};
};

}  // namespace weft
