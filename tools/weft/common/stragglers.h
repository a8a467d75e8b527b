// Processes that the ranks left behind. This process is their subreaper (become_parent()), so
// whatever a rank started and did not wait for becomes our child, even from another session. Main
// thread only.
#pragma once

#include <sys/types.h>

#include <vector>

namespace weft {

// Waits for children that are not ranks and have ended, so that no zombies remain.
void reap_adopted(const std::vector<pid_t>& ranks);

// Kills the process groups of `ranks` (ended, but not waited for: so their numbers cannot be
// anybody else's yet), waits for the ranks, then kills and waits for all that we have adopted.
// Bounded: gives up on a process that the kernel cannot end. Returns how many processes are left.
int end_all(const std::vector<pid_t>& ranks);

}  // namespace weft
