// repeats: which calls run a slot's last operation once more, instead of being checked and bound anew.
// Checking and binding is most of the cost of a call of a few bytes. Each call that may be repeated
// has a number, and LaneSlot::bound is the number of the call to which the slot is bound. A Prepared
// has one number for all its runs. A blocking call gets the number of the last call on its channel if
// it equals that one. Whether its memory is a GPU's is asked all the same: host memory may have
// been freed since the last call, and its address given to a GPU. Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/lane/lane.h"
#include "engine/request/request.h"

namespace weft {

// Belongs to the holder of the lane's token.
class Repeats {
 public:
  explicit Repeats(std::size_t channels) : last_(channels) {}

  // A number for the runs of a Prepared.
  [[nodiscard]] std::uint64_t new_number() { return ++numbers_; }
  // Whether the slot is bound to a blocking call that is equal to this one except for the values of
  // weights. If it is, and the request names all its peers, the slot's bound call gets the request's
  // weights.
  [[nodiscard]] bool repeats(LaneSlot& slot, const Request& request) const;
  // Notes that the slot is bound to the blocking call.
  void remember(LaneSlot& slot, const Request& request);

 private:
  // Small members do not stand side by side. A compiler would compare two of them as one word, and
  // that load would wait for the narrower stores that wrote them (engine/README.md).
  struct Last {
    std::uint64_t number = 0;
    Collective collective{};
    Input input{};
    ReduceOp op{};
    Output output{};
    AllreduceAlgorithm algorithm{};
    Rank root = kNoRank;
    Bits bits{};
    bool names_all = false;  // the request's weights name all its peers
    bool needs_all = false;
  };

  std::vector<Last> last_;  // by channel, from channel 1
  std::uint64_t numbers_ = 0;
};

}  // namespace weft
