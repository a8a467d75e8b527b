// The end of a child: what it printed meanwhile, and how it ended; in bounded time, whatever it
// does.
#pragma once

#include <string>

#include "tools/weft/common/child.h"

namespace weft {

struct Ending {
  bool in_time = true;  // false: it was killed at the deadline
  int status = 0;       // as waitpid() has it
  std::string out;
  std::string err;
};

// Returns once the child has ended; at the deadline its whole process group is killed.
Ending await_end(Child& child, Deadline deadline);

// Whether it ended within so many milliseconds; it is not reaped yet.
[[nodiscard]] bool has_ended(const Child& child, std::int64_t wait_ms);

// Kills its process group, unless it was waited for, and reaps it.
void end(Child& child);

}  // namespace weft
