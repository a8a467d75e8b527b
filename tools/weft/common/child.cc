// fork and exec. Other threads run in this process (the rendezvous), so between the two the child
// only makes system calls; everything that needs memory is prepared before.
#include "tools/weft/common/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "tools/weft/common/pipe.h"

namespace weft {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// What the child writes to a pipe that closes when exec succeeds.
struct Failure {
  enum Step : int { bind, streams, exec } step;
  int error;
};

// All that the child needs, made before the fork.
struct Launch {
  std::vector<char*> argv;
  std::vector<char*> environment;
  cpu_set_t cpus;
  bool bind;
  bool must_bind;
  pid_t parent;
  int null_in;
  int out;
  int err;
  int failure;
};

[[noreturn]] void fail(const Launch& launch, Failure::Step step) {
  const Failure failure{step, errno};
  (void)!::write(launch.failure, &failure, sizeof failure);
  ::_exit(127);
}

// The limits that this process had before become_parent() raised them; the ranks get these.
rlimit original_files{};

[[noreturn]] void run_child(const Launch& launch) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launch.parent) ::_exit(127);  // it died before the line above took hold
  if (launch.bind && ::sched_setaffinity(0, sizeof launch.cpus, &launch.cpus) != 0 &&
      launch.must_bind) {
    fail(launch, Failure::bind);
  }
  if (::dup2(launch.null_in, 0) < 0 || ::dup2(launch.out, 1) < 0 || ::dup2(launch.err, 2) < 0) {
    fail(launch, Failure::streams);
  }
  if (original_files.rlim_max != 0) ::setrlimit(RLIMIT_NOFILE, &original_files);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);  // ours are blocked for the signalfd
  ::signal(SIGPIPE, SIG_DFL);  // what this process ignores is no matter of the ranks
  ::signal(SIGXFSZ, SIG_DFL);
  ::execvpe(launch.argv[0], launch.argv.data(), launch.environment.data());
  fail(launch, Failure::exec);
}

Status explain(const Failure& failure, const ChildOptions& options) {
  switch (failure.step) {
    case Failure::bind:
      return system_error(fmt::format("bind to core {}", options.cpu), failure.error);
    case Failure::streams:
      return system_error("standard streams of a rank", failure.error);
    case Failure::exec:
      break;
  }
  const bool has_path = options.command[0].find('/') != std::string::npos;
  return Status(
      failure.error == ENOENT ? Code::unavailable : Code::no_permission,
      fmt::format("cannot start '{}': {}{}", options.command[0], errno_text(failure.error),
                  failure.error == ENOENT && !has_path ? " in any directory of PATH" : ""));
}

// Blocks until the child has either called exec (the pipe closes) or written why not.
Status hear_from(const Fd& failures, const ChildOptions& options) {
  Failure failure{};
  for (;;) {
    const ssize_t count = ::read(failures.get(), &failure, sizeof failure);
    if (count == 0) return {};
    if (count == static_cast<ssize_t>(sizeof failure)) return explain(failure, options);
    if (errno != EINTR) return system_error("start a rank", errno);
  }
}

}  // namespace

Result<Child> start_child(const ChildOptions& options) {
  WEFT_ASSIGN(Pipe out, make_pipe());
  WEFT_ASSIGN(Pipe err, make_pipe());
  WEFT_ASSIGN(Pipe failures, make_pipe());
  const Fd null_in(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null_in.valid()) return system_error("open /dev/null", errno);
  Launch launch{pointers(options.command),
                pointers(options.environment),
                {},
                options.cpu >= 0,
                options.must_bind,
                ::getpid(),
                null_in.get(),
                out.write.get(),
                err.write.get(),
                failures.write.get()};
  CPU_ZERO(&launch.cpus);
  if (options.cpu >= 0) CPU_SET(static_cast<std::size_t>(options.cpu), &launch.cpus);

  const pid_t pid = ::fork();
  if (pid < 0) return system_error("fork", errno);
  if (pid == 0) run_child(launch);
  ::setpgid(pid, pid);  // by both of us: whoever comes first, nobody is early
  failures.write.reset();
  if (Status status = hear_from(failures.read, options); !status.ok()) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return status;
  }
  Child child{pid, Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))), std::move(out.read),
              std::move(err.read)};
  ::fcntl(child.out.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(child.err.get(), F_SETFL, O_NONBLOCK);
  return child;
}

Status become_parent(int ranks) {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    return system_error("prctl PR_SET_CHILD_SUBREAPER", errno);
  if (::getrlimit(RLIMIT_NOFILE, &original_files) != 0) return system_error("getrlimit", errno);
  // Per rank: two pipes, a pidfd, its rendezvous connection, and another at the door.
  const rlim_t needed = 64 + 5 * static_cast<rlim_t>(ranks);
  if (original_files.rlim_cur >= needed) return {};
  rlimit raised = original_files;
  raised.rlim_cur = needed;
  if (needed > original_files.rlim_max || ::setrlimit(RLIMIT_NOFILE, &raised) != 0) {
    return Status(Code::exhausted,
                  fmt::format("{} ranks need {} file descriptors; ulimit -n allows {}", ranks,
                              needed, original_files.rlim_max));
  }
  return {};
}

std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace weft
