// no_more_threads: from now on the system refuses this process every new thread, as `ulimit -u`
// does. For the child process of a test; nothing gives threads back.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

namespace weft {

inline bool no_more_threads() {
  constexpr uid_t kNobody = 65534;
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_NPROC, &none) != 0) return false;
  return ::getuid() != 0 || ::setuid(kNobody) == 0;  // root is not bounded
}

}  // namespace weft
