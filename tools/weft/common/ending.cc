// The pidfd shows the end of a process. Its streams do not: a grandchild may hold them open.
#include "tools/weft/common/ending.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace weft {
namespace {

// All that is there to read; false at the end of the stream.
bool read_some(const Fd& from, std::string& to) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t got = ::read(from.get(), bytes.data(), bytes.size());
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    to.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

int reap(Child& child) {
  ::kill(-child.pid, SIGKILL);  // a group that its leader has left, too
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  child.pid = -1;
  return status;
}

}  // namespace

Ending await_end(Child& child, Deadline deadline) {
  Ending ending;
  for (bool ended = false; !ended && ending.in_time;) {
    std::array<pollfd, 3> ready{{{child.pidfd.get(), POLLIN, 0},
                                 {child.out.get(), POLLIN, 0},
                                 {child.err.get(), POLLIN, 0}}};
    ending.in_time = ::poll(ready.data(), ready.size(), deadline.left_ms()) != 0;
    ended = ready[0].revents != 0;
    if (child.out.valid() && !read_some(child.out, ending.out)) child.out.reset();
    if (child.err.valid() && !read_some(child.err, ending.err)) child.err.reset();
    ending.in_time = ending.in_time && (ended || !deadline.passed());
  }
  ending.status = reap(child);
  return ending;
}

bool has_ended(const Child& child, std::int64_t wait_ms) {
  pollfd ended{child.pidfd.get(), POLLIN, 0};
  return ::poll(&ended, 1, static_cast<int>(wait_ms)) == 1;
}

void end(Child& child) {
  if (child.pid > 0) reap(child);
}

}  // namespace weft
