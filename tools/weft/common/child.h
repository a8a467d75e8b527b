// Starting one rank's process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "engine/bootstrap/bootstrap.h"

namespace weft {

struct ChildOptions {
  std::vector<std::string> command;      // program, found along PATH, and its arguments
  std::vector<std::string> environment;  // "NAME=value"
  int cpu = -1;                          // the only one it may run on; -1: as we may
  bool must_bind = false;                // else a kernel that refuses to bind it is no error
};

// A process that has been started and not yet been waited for. Its standard input is /dev/null; it
// leads a process group of its own, and the kernel kills it when we die.
struct Child {
  pid_t pid = -1;  // also its process group
  Fd pidfd;        // readable once it has ended; invalid where the kernel gives none
  Fd out;          // reading ends of its standard output and error, non-blocking
  Fd err;
};

// Called by the main thread, whose end the child's life hangs on. Returns once the program runs, or
// why it does not (unavailable: not found or not executable).
[[nodiscard]] Result<Child> start_child(const ChildOptions& options);

// Prepares this process: room for the descriptors of `ranks` ranks, and every orphan of theirs
// becomes our child, so that none is lost.
Status become_parent(int ranks);

// The CPUs that this process may use, ascending.
[[nodiscard]] std::vector<int> usable_cpus();

}  // namespace weft
