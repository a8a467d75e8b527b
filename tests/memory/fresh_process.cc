// Forking, and carrying a child's results over a pipe: one byte says failure or skip, the text
// follows, a 0 ends it.
#include "tests/memory/fresh_process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>

namespace weft {
namespace {

constexpr unsigned kChildSeconds = 120;

void write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size() + 1) {
    const ssize_t wrote = write(fd, text.c_str() + done, text.size() + 1 - done);
    if (wrote <= 0) return;  // the parent is gone; nobody wants to know
    done += static_cast<std::size_t>(wrote);
  }
}

// What the body recorded in GoogleTest's result of the test that this process was forked from.
void report_parts(int fd) {
  const testing::TestResult& result =
      *testing::UnitTest::GetInstance()->current_test_info()->result();
  for (int i = 0; i < result.total_part_count(); ++i) {
    const testing::TestPartResult& part = result.GetTestPartResult(i);
    if (part.passed()) continue;
    const std::string where =
        part.file_name() == nullptr
            ? ""
            : std::string(part.file_name()) + ":" + std::to_string(part.line_number()) + ": ";
    write_all(fd,
              part.skipped() ? std::string("s") + part.message() : "f" + where + part.message());
  }
}

[[noreturn]] void run_child(const std::function<void()>& body, int fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(kChildSeconds);
  try {
    body();
  } catch (const std::exception& error) {
    write_all(fd, std::string("fexception: ") + error.what());
  }
  report_parts(fd);
  _exit(0);
}

std::string read_to_end(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = read(fd, buffer.data(), buffer.size()); got > 0;
       got = read(fd, buffer.data(), buffer.size())) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

FreshProcess::FreshProcess(const std::function<void()>& body) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("pipe failed");
  std::fflush(nullptr);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    close(ends[0]);
    run_child(body, ends[1]);
  }
  close(ends[1]);
  report_ = ends[0];
}

FreshProcess::FreshProcess(FreshProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), report_(std::exchange(other.report_, -1)) {}

FreshProcess::~FreshProcess() {
  if (report_ >= 0) close(report_);
  if (pid_ < 0) return;
  kill();
  waitpid(pid_, nullptr, 0);
}

void FreshProcess::kill() const {
  ::kill(pid_, SIGKILL);
}

FreshProcess::Outcome FreshProcess::join() {
  const std::string text = read_to_end(report_);
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  Outcome outcome;
  for (std::size_t at = 0; at < text.size(); at += std::strlen(text.c_str() + at) + 1) {
    (text[at] == 's' ? outcome.skipped : outcome.failures) +=
        std::string(text.c_str() + at + 1) + "\n";
  }
  if (WIFSIGNALED(status))
    outcome.failures += "ended by signal " + std::to_string(WTERMSIG(status)) + "\n";
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
    outcome.failures += "ended with " + std::to_string(WEXITSTATUS(status)) + "\n";
  }
  return outcome;
}

void report(const FreshProcess::Outcome& outcome, const std::string& who) {
  if (!outcome.failures.empty()) ADD_FAILURE() << who << ": " << outcome.failures;
  if (!outcome.skipped.empty()) GTEST_SKIP() << outcome.skipped;
}

void in_fresh_process(const std::function<void()>& body) {
  report(FreshProcess(body).join(), "in a fresh process");
}

}  // namespace weft
