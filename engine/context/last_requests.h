// last_requests: the request that each channel ran last. If a blocking call is equal to the last
// one on its channel, it is not checked and bound anew. Checking and binding is most of the cost of
// a call of a few bytes. Whether its memory is a GPU's is asked all the same: memory of the host may
// have been freed since the last call, and its address given to a GPU. Internal to the module.
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

  // Whether the slot's execution is bound to a request that is equal to this one except for the
  // values of weights. If it is, and the request names all its peers, the slot's invocation gets
  // the request's weights.
  [[nodiscard]] bool repeats(LaneSlot& slot, const Request& request, std::uint64_t plans) const;
  // Notes that the slot is bound to the request. `plans`: PlanCache::generation().
  void remember(const LaneSlot& slot, const Request& request, std::uint64_t plans);
  // Forgets all requests. Needed when the graph changes, because the same request then means
  // something else.
  void forget();

 private:
  // Small members do not stand side by side. A compiler would compare two of them as one word, and
  // that load would wait for the narrower stores that wrote them (engine/README.md).
  struct Last {
    bool is_valid = false;
    Collective collective{};
    std::uint64_t bindings = 0;  // LaneSlot::bindings at the time of remember()
    ReduceOp op{};
    std::uint64_t plans = 0;  // PlanCache::generation() at that time
    AllreduceAlgorithm algorithm{};
    Input input{};
    Rank root = kNoRank;
    Output output{};
    bool names_all = false;  // the request's weights name all its peers
  };

  std::vector<Last> last_;  // by channel, from channel 1
};

}  // namespace weft
