// base: what the host's process may rely on in Weft's threads.
#include "verbs/base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <string>

#include "tests/base/no_threads.h"

namespace weft {
namespace {

TEST(Thread, HasItsName) {
  std::array<char, 16> name{};
  {
    Result<Thread> thread = start_thread(
        "weft-123456789a", [&] { pthread_getname_np(pthread_self(), name.data(), name.size()); });
    ASSERT_TRUE(thread.ok()) << thread.status().to_string();
  }
  EXPECT_EQ(std::string(name.data()), "weft-123456789a");
  EXPECT_DEATH((void)start_thread("weft-123456789ab", [] {}), "15 characters");
}

TEST(Thread, LeavesSignalsToTheHostsThreads) {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  sigset_t inside{};
  start_thread("weft-test", [&] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); })->join();
  for (const int sent : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGALRM, SIGUSR1, SIGPIPE, SIGRTMIN}) {
    EXPECT_EQ(sigismember(&inside, sent), 1) << sent;
  }
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    EXPECT_EQ(sigismember(&inside, fault), 0) << fault;
  }
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
  }
}

TEST(Thread, EndsBeforeItsOwner) {
  bool done = false;
  {
    const Thread thread = *start_thread("weft-test", [&] { done = true; });
    EXPECT_TRUE(thread.joinable());
    EXPECT_FALSE(thread.is_current());
  }
  EXPECT_TRUE(done);
  Thread none;
  none.join();
  EXPECT_FALSE(none.joinable());
}

TEST(Thread, KnowsItself) {
  Thread thread;
  bool knows = false;
  pthread_barrier_t assigned;
  pthread_barrier_init(&assigned, nullptr, 2);
  thread = *start_thread("weft-test", [&] {
    pthread_barrier_wait(&assigned);
    knows = thread.is_current();
  });
  pthread_barrier_wait(&assigned);
  thread.join();
  pthread_barrier_destroy(&assigned);
  EXPECT_TRUE(knows);
}

// In the child of a death test: 0 if the refusal is a Status that says what may be done.
void start_without_threads() {
  if (!no_more_threads()) _exit(2);
  const Result<Thread> thread = start_thread("weft-test", [] {});
  const Status status = thread.status();
  const bool told = status.code() == Code::exhausted &&
                    status.text().find("weft-test") != std::string_view::npos &&
                    status.text().find("ulimit -u") != std::string_view::npos;
  _exit(told ? 0 : 1);
}

TEST(Thread, RefusedIsAnError) {
  EXPECT_EXIT(start_without_threads(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft
