// base: who speaks, where records go, and that both outlive everything.
#include "verbs/base/log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "verbs/base/thread.h"

namespace weft {
namespace {

// What is logged while it lives: "2 warning text".
class Collected {
 public:
  Collected() {
    set_log_sink([this](const LogRecord& record) {
      records_.push_back(std::to_string(record.rank) + " " + std::string(name(record.level)) + " " +
                         std::string(record.text));
    });
  }
  Collected(const Collected&) = delete;
  Collected& operator=(const Collected&) = delete;
  ~Collected() { set_log_sink({}); }

  [[nodiscard]] const std::vector<std::string>& records() const { return records_; }

 private:
  std::vector<std::string> records_;
};

using Records = std::vector<std::string>;

TEST(Log, BelongsToWhoSpeaks) {
  const Collected collected;
  log(LogLevel::info, "dropped");
  log(LogLevel::warning, "nobody's");
  {
    const LogScope first({LogLevel::info, 1});
    {
      const LogScope second({LogLevel::error, 2});
      log(LogLevel::warning, "dropped");
      log(LogLevel::error, "second");
    }
    log(LogLevel::info, "first again");
  }
  log(LogLevel::info, "dropped");
  EXPECT_EQ(collected.records(),
            (Records{"-1 warning nobody's", "2 error second", "1 info first again"}));
}

TEST(Log, OfAThreadIsItsStarters) {
  const Collected collected;
  const LogScope scope({LogLevel::debug, 7});
  start_thread("weft-test", [] { log(LogLevel::debug, "from a thread"); })->join();
  EXPECT_EQ(collected.records(), (Records{"7 debug from a thread"}));
}

TEST(Log, PrintsToStandardErrorWithoutASink) {
  testing::internal::CaptureStderr();
  {
    const Collected collected;
    log(LogLevel::error, "to the sink");
    EXPECT_EQ(collected.records().size(), 1U);
  }
  const LogScope scope({LogLevel::warning, 3});
  log(LogLevel::warning, "the rail is down");
  log(LogLevel::off, "no level");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weft[3] warning: the rail is down\n");
}

TEST(Log, ASinkMayThrowAndMayLeave) {
  set_log_sink([](const LogRecord&) {
    set_log_sink({});
    throw std::runtime_error("no");
  });
  log(LogLevel::error, "dropped by the sink");
  testing::internal::CaptureStderr();
  log(LogLevel::error, "printed");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weft error: printed\n");
}

// Destroyed after everything that is made later, such as a host's static context.
struct Last {
  ~Last() { log(LogLevel::warning, "last words"); }
};

TEST(Log, OutlivesStaticObjects) {
  const auto exit_with_last_words = [] {
    static const Last last;
    log(LogLevel::warning, "first words");
    std::exit(0);
  };
  EXPECT_EXIT(exit_with_last_words(), testing::ExitedWithCode(0),
              "weft warning: first words\nweft warning: last words\n");
}

}  // namespace
}  // namespace weft
