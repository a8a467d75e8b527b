// Finding and ending adopted processes, by the kernel's own list of our children.
#include "tools/weft/common/stragglers.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>

#include "engine/bootstrap/bootstrap.h"

namespace weft {
namespace {

// Killing a parent hands us its children: each round goes one generation down.
constexpr int kMaxRounds = 64;
constexpr int kKillMs = 2'000;  // how long a killed process may take to end

// Empty where the kernel lacks CONFIG_PROC_CHILDREN: then the process groups have to suffice.
std::vector<pid_t> our_children() {
  std::ifstream list("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  std::vector<pid_t> children;
  for (pid_t pid = 0; list >> pid;) children.push_back(pid);
  return children;
}

bool kill_and_wait(pid_t pid) {
  ::kill(pid, SIGKILL);
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const Deadline deadline = Deadline::after_ms(kKillMs);
  pollfd one{pidfd.get(), POLLIN, 0};
  while (pidfd.valid() && ::poll(&one, 1, deadline.left_ms()) < 0 && errno == EINTR) {
  }
  if (pidfd.valid()) return ::waitpid(pid, nullptr, WNOHANG) == pid;
  // Without a pidfd there is nothing to wait on with a bound: looked at every millisecond.
  while (!deadline.passed()) {
    if (const pid_t ended = ::waitpid(pid, nullptr, WNOHANG); ended != 0) return ended == pid;
    (void)::poll(nullptr, 0, 1);
  }
  return false;
}

}  // namespace

void reap_adopted(const std::vector<pid_t>& ranks) {
  for (const pid_t child : our_children()) {
    if (std::ranges::find(ranks, child) == ranks.end()) (void)::waitpid(child, nullptr, WNOHANG);
  }
}

int end_all(const std::vector<pid_t>& ranks) {
  for (const pid_t rank : ranks) ::kill(-rank, SIGKILL);
  int left = 0;
  for (const pid_t rank : ranks) left += kill_and_wait(rank) ? 0 : 1;
  for (int round = 0; round < kMaxRounds; ++round) {
    const std::vector<pid_t> children = our_children();
    const auto ended = std::ranges::count_if(children, kill_and_wait);
    left = static_cast<int>(children.size() - static_cast<std::size_t>(ended));
    if (ended == 0) break;
  }
  return left;
}

}  // namespace weft
