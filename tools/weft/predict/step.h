// step: a step of a program, as Chakra traces have it, played on a cluster. Internal to `weft predict`.
//
// A rank does one computation of its processor and one of its GPU at a time, in the order in which they are ready and then
// of the file. The ranks of a group (pg_name) do one collective at a time; it begins when the last of them is ready. A
// message leaves as soon as it is ready, one after the other, whether or not its receiver waits. Operations that run at
// the same time do not slow each other down.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/weft/chakra/chakra.h"

namespace weft {

// Where a step is played: what operations and messages take there.
struct StepCosts {
  std::function<Result<double>(const ChakraNode& node, const std::vector<Rank>& group)>
      collective_us;
  struct Message {
    double sending_us = 0;
    double latency_us = 0;
  };
  std::function<Result<Message>(Rank from, Rank to, std::uint64_t bytes)> message;
};

struct RankOfStep {
  double us = 0;            // when its last node ended
  double computing_us = 0;  // in which its processor or its GPU computes
  double communicating_us =
      0;  // in which it is in a collective or a message, also while it waits for others
  double exposed_us = 0;  // of that, while it computes nothing
};

struct OperationOfStep {
  std::string name;
  std::uint64_t bytes = 0;  // of each
  std::uint64_t count = 0;
  double us = 0;  // of all, without waiting for late ranks
};

struct PlayedStep {
  double us = 0;
  std::vector<RankOfStep> ranks;            // one if all do the same
  std::vector<OperationOfStep> operations;  // those that take longest in all come first
  std::uint64_t nodes = 0;
  std::uint64_t without_time = 0;  // computations whose trace has no time
};

// `traces`: by rank; or one, which each of `ranks` ranks follows. Errors name the file and the node: dependencies in a
// circle or on a node that is not there, collectives that differ between ranks, messages that nobody sends.
[[nodiscard]] Result<PlayedStep> play_step(const std::vector<ChakraTrace>& traces, int ranks,
                                           const StepCosts& costs);

}  // namespace weft
