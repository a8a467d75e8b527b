// Threads by pthread_create, which returns its error; std::thread would throw it.
#include "verbs/base/thread.h"

#include <cstring>
#include <memory>
#include <string>

#include "verbs/base/log.h"

namespace weft {
namespace {

constexpr std::size_t kLongestName = 15;  // TASK_COMM_LEN without its end

struct Start {
  std::string name;
  LogVoice voice;
  std::function<void()> function;
};

void* run(void* argument) {
  const std::unique_ptr<Start> start(static_cast<Start*>(argument));
  pthread_setname_np(pthread_self(), start->name.c_str());
  const LogScope scope(start->voice);
  start->function();
  return nullptr;
}

}  // namespace

SignalsBlocked::SignalsBlocked() {
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int fault : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP}) {
    sigdelset(&blocked, fault);
  }
  pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

void Thread::join() {
  if (!thread_) return;
  if (is_current()) {
    pthread_detach(*thread_);
  } else {
    pthread_join(*thread_, nullptr);
  }
  thread_.reset();
}

Result<Thread> start_thread(const char* name, std::function<void()> function) {
  invariant(std::strlen(name) <= kLongestName, "the kernel keeps 15 characters of a thread's name");
  auto start = std::make_unique<Start>(Start{name, log_voice(), std::move(function)});
  const SignalsBlocked blocked;
  pthread_t thread{};
  if (const int error = pthread_create(&thread, nullptr, run, start.get()); error != 0) {
    return Status(Code::exhausted, "start the thread " + std::string(name) + ": " +
                                       errno_text(error) +
                                       " (threads of this user are bounded by `ulimit -u`, those "
                                       "of a container by its pids limit, and each needs a stack "
                                       "of address space: `ulimit -v`)");
  }
  (void)start.release();             // the thread's
  pthread_setname_np(thread, name);  // the thread does so, too; whoever looks first sees the name
  return Thread(thread);
}

}  // namespace weft
