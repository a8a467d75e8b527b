// last_requests: what each channel ran last. A blocking call that asks for the same as the last one on
// its channel is neither checked nor bound anew, which is most of what a call of a few bytes costs.
// Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/lane/lane.h"
#include "engine/request/request.h"

namespace weft {

// Belongs to the holder of the lane's token.
class LastRequests {
 public:
  explicit LastRequests(std::size_t channels) : last_(channels) {}

  // Whether the slot's execution is bound to this very request, but for the values of weights. The
  // weights of a request that names all its peers are then given to the slot's invocation.
  [[nodiscard]] bool repeats(LaneSlot& slot, const Request& request, std::uint64_t plans) const;
  // The slot is bound to the request. `plans`: PlanCache::generation().
  void remember(const LaneSlot& slot, const Request& request, std::uint64_t plans);
  // What requests mean has changed.
  void forget();

 private:
  // The small members do not stand together: compilers compare neighbors as one word, which they put
  // together in memory and read back before it is there.
  struct Last {
    bool is_valid = false;
    Collective collective{};
    std::uint64_t bindings = 0;  // LaneSlot::bindings and PlanCache::generation() then
    ReduceOp op{};
    std::uint64_t plans = 0;
    AllreduceAlgorithm algorithm{};
    Input input{};
    Rank root = kNoRank;
    Output output{};
    bool names_all = false;  // its weights
  };

  std::vector<Last> last_;  // by channel, from channel 1
};

}  // namespace weft
