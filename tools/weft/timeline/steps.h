// steps: timelines of a job as traces of MLCommons Chakra (tools/weft/chakra), which `weft predict --chakra` plays.
//
// An operation of all ranks becomes a collective; its comm_size is the largest input of a rank. One between neighbors,
// a send and a pair_average become messages. What lies between two operations of a rank is a computation. An operation
// that had ended when the next one began counts as waited for; the timeline does not tell.
#pragma once

#include <string>
#include <vector>

#include "tools/weft/chakra/chakra.h"
#include "tools/weft/timeline/files.h"

namespace weft {

struct TimelineSteps {
  std::vector<std::vector<ChakraNode>> ranks;  // nodes, by the rank in the job
  std::size_t operations = 0;                  // calls, of all ranks
  std::vector<std::string> left_out;           // "12 calls of X: why"
};

// An invalid_argument names the file, or the rank of which there is none.
[[nodiscard]] Result<TimelineSteps> chakra_of(const std::vector<TimelineFile>& files);

}  // namespace weft
