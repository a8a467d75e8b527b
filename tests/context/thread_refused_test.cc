// A process that may not start threads gets an error from opening a context and goes on living.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "engine/context/context.h"
#include "tests/base/no_threads.h"

namespace weft {
namespace {

// Rank 0 of two, whose rendezvous needs a thread.
void open_without_threads() {
  setenv("WEFT_RANK", "0", 1);
  setenv("WEFT_SIZE", "2", 1);
  setenv("WEFT_RENDEZVOUS", ("127.0.0.1:" + std::to_string(20000 + ::getpid() % 20000)).c_str(), 1);
  setenv("WEFT_JOB_KEY", "0123456789abcdef0123456789abcdef", 1);
  setenv("WEFT_DEADLINE_MS", "5000", 1);
  if (!no_more_threads()) _exit(2);
  const Result<std::unique_ptr<Context>> context = Context::from_environment();
  const bool told = context.status().code() == Code::exhausted &&
                    context.status().text().find("ulimit -u") != std::string_view::npos;
  if (!told) fprintf(stderr, "%s\n", context.status().to_string().c_str());
  _exit(told ? 0 : 1);
}

TEST(ThreadRefused, IsAnErrorOfFromEnvironment) {
  GTEST_FLAG_SET(death_test_style,
                 "threadsafe");  // a program of its own: a forked child is refused
  EXPECT_EXIT(open_without_threads(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft
