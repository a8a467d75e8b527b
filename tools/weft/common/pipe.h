// A pipe to or from a child process; both ends close on exec.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "engine/bootstrap/bootstrap.h"

namespace weft {

struct Pipe {
  Fd read;
  Fd write;
};

inline Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("pipe", errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

}  // namespace weft
