// The suite is a program of the tests, which are above the tools: it is started, not linked.
#include "tools/weft/selftest/check.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>
#include <filesystem>
#include <sstream>

#include "engine/config/config.h"
#include "tools/weft/common/ending.h"

namespace weft {
namespace {

constexpr int kSkipped = 77;  // as weft_selftest has it
constexpr std::int64_t kListMs = 30'000;

// Built next to this program.
Result<std::string> program() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto suite = self.parent_path() / "weft_selftest";
  if (!error && std::filesystem::exists(suite, error)) return suite.string();
  return Status(
      Code::unavailable,
      suite.string() +
          " is not there: it is built with the tests (GoogleTest, cmake -D WEFT_TESTS=ON)");
}

Result<Ending> run_suite(const std::vector<std::string>& words, Deadline deadline) {
  WEFT_ASSIGN(const std::string suite, program());
  std::vector<std::string> command{suite};
  command.insert(command.end(), words.begin(), words.end());
  WEFT_ASSIGN(Child child, start_child({.command = command, .environment = environment()}));
  return await_end(child, deadline);
}

// How the process of a failed check ended; empty: the check has printed what failed.
std::string bad_end(const Ending& ending, double seconds) {
  if (!ending.in_time)
    return fmt::format("out of time: it was ended after {} s (--seconds)\n", seconds);
  if (WIFSIGNALED(ending.status)) {
    const int signal = WTERMSIG(ending.status);
    return fmt::format("ended by signal {} ({})\n", signal, strsignal(signal));
  }
  return ending.out.empty() ? fmt::format("ended with {}\n", WEXITSTATUS(ending.status)) : "";
}

}  // namespace

Result<std::vector<std::string>> selftest_checks() {
  WEFT_ASSIGN(const Ending ending, run_suite({}, Deadline::after_ms(kListMs)));
  if (!ending.in_time || ending.status != 0)
    return Status(Code::mismatch, "weft_selftest does not list its checks: " + ending.err);
  std::vector<std::string> checks;
  std::istringstream lines(ending.out);
  for (std::string line; std::getline(lines, line);) checks.push_back(line);
  return checks;
}

CheckResult run_check(const std::string& check, const SelftestTarget& target, double seconds) {
  const std::int64_t begin = now_ns();
  std::vector<std::string> words{check, target.transport};
  if (!target.device.empty()) words.insert(words.end(), {target.device, target.peer_device});
  const auto limit_ms = static_cast<std::int64_t>(seconds * 1000);
  const Result<Ending> ending = run_suite(words, Deadline::after_ms(limit_ms));
  CheckResult result{check};
  result.seconds = static_cast<double>(now_ns() - begin) / 1e9;
  if (!ending.ok()) {
    result.verdict = Verdict::failed;
    result.why = ending.status().to_string();
  } else if (ending->in_time && WIFEXITED(ending->status) &&
             WEXITSTATUS(ending->status) == kSkipped) {
    result.verdict = Verdict::skipped;
    result.why = ending->out;
  } else if (!ending->in_time || ending->status != 0) {
    result.verdict = Verdict::failed;
    result.why = bad_end(*ending, seconds) + ending->out + ending->err;
  }
  return result;
}

}  // namespace weft
