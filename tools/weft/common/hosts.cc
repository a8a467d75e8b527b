// Processes of this host that run a command on others. All are started at once, in groups, and those that have
// not ended in time are ended.
#include "tools/weft/common/hosts.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>

#include "engine/bootstrap/bootstrap.h"
#include "tools/weft/common/child.h"
#include "tools/weft/common/ending.h"
#include "tools/weft/common/range.h"

namespace weft {
namespace {

constexpr std::size_t kAtOnce = 64;  // each has a process and three descriptors here
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

double clock_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::vector<std::string> split(const std::string& text, char at) {
  std::istringstream stream(text);
  std::vector<std::string> parts;
  for (std::string part; std::getline(stream, part, at);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

// It would be an option of ssh.
Status check_host(const std::string& host, const std::string& option) {
  if (host.starts_with('-'))
    return Status(Code::invalid_argument, fmt::format("{}: {} is no host", option, host));
  return {};
}

// As mpirun has it: a host at the beginning of each line, and # before remarks.
Result<std::vector<std::string>> hosts_in(const std::string& path) {
  const std::string option = "--hostfile " + path;
  std::ifstream file(path);
  if (!file) return Status(Code::invalid_argument, option + ": cannot be read");
  std::vector<std::string> hosts;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    if (std::string host; words >> host) {
      WEFT_RETURN_IF_ERROR(check_host(host, option));
      hosts.push_back(host);
    }
  }
  if (hosts.empty()) return Status(Code::invalid_argument, option + ": names no host");
  return hosts;
}

struct Asked {
  HostAnswer answer;
  Child child;
  std::string out, err;
  int status = -1;
  bool is_over = false;
};

// What is there to read; closes the stream at its end.
void drain(Fd& from, std::string& to) {
  std::array<char, 16384> bytes;
  while (from.valid()) {
    const ssize_t got = ::read(from.get(), bytes.data(), bytes.size());
    if (got > 0 && to.size() < kMostBytes) to.append(bytes.data(), static_cast<std::size_t>(got));
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    if (got < 0 && errno == EAGAIN) return;
    from.reset();
  }
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \r\n");
  if (end == std::string::npos) return {};
  const std::size_t before = text.find_last_of('\n', end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, end - begin + 1);
}

Result<std::string> understood(Asked& asked) {
  if (WIFEXITED(asked.status) && WEXITSTATUS(asked.status) <= 1 && !asked.out.empty())
    return std::move(asked.out);
  const std::string said = last_line(asked.err);
  if (!said.empty()) return Status(Code::unavailable, said);
  if (WIFSIGNALED(asked.status))
    return Status(Code::unavailable,
                  fmt::format("the command was killed by signal {}", WTERMSIG(asked.status)));
  return Status(Code::unavailable, fmt::format("the command ended with status {} and no answer",
                                               WEXITSTATUS(asked.status)));
}

class Group {
 public:
  explicit Group(double seconds) : seconds_(seconds) {}

  void ask(const std::string& host, std::vector<std::string> command) {
    ChildOptions options;
    options.command = std::move(command);
    options.environment = environment();
    Asked asked;
    asked.answer.host = host;
    asked.answer.asked_s = clock_s();
    Result<Child> child = start_child(options);
    if (child.ok()) {
      asked.child = *std::move(child);
    } else {
      asked.answer.text = child.status();
      asked.is_over = true;
    }
    asked_.push_back(std::move(asked));
  }

  void await(std::vector<HostAnswer>& answers) {
    constexpr double kMs = 1e3;
    const Deadline deadline = Deadline::after_ms(static_cast<std::int64_t>(seconds_ * kMs));
    while (!deadline.passed() && !std::ranges::all_of(asked_, &Asked::is_over)) turn(deadline);
    for (Asked& asked : asked_) {
      if (!asked.is_over) {
        end(asked.child);
        asked.answer.text = Status(
            Code::timed_out, fmt::format("does not answer within {} s (--timeout)", seconds_));
      }
      answers.push_back(std::move(asked.answer));
    }
  }

 private:
  void turn(Deadline deadline) {
    constexpr int kWithoutPidfd = 50;  // ms
    std::vector<pollfd> ready;
    int wait_ms = deadline.left_ms();
    for (const Asked& asked : asked_) {
      if (asked.is_over) continue;
      for (const Fd* fd : {&asked.child.pidfd, &asked.child.out, &asked.child.err})
        ready.push_back({fd->get(), POLLIN, 0});
      if (!asked.child.pidfd.valid()) wait_ms = std::min(wait_ms, kWithoutPidfd);
    }
    ::poll(ready.data(), ready.size(), wait_ms);
    for (Asked& asked : asked_) {
      if (asked.is_over) continue;
      drain(asked.child.out, asked.out);
      drain(asked.child.err, asked.err);
      if (::waitpid(asked.child.pid, &asked.status, WNOHANG) != asked.child.pid) continue;
      drain(asked.child.out, asked.out);
      drain(asked.child.err, asked.err);
      asked.child.pid = -1;
      asked.answer.answered_s = clock_s();
      asked.answer.text = understood(asked);
      asked.is_over = true;
    }
  }

  const double seconds_;
  std::vector<Asked> asked_;
};

}  // namespace

HostOptions add_host_options(CLI::App& command, HostArguments& to) {
  HostOptions options;
  options.hosts = command.add_option("--hosts", to.hosts, "Ask these hosts, by ssh: a,b,c");
  options.hostfile = command.add_option("--hostfile", to.hostfile, "The same, a host on each line")
                         ->excludes(options.hosts);
  command.add_option("--ssh", to.ssh, "What runs a command on a host")
      ->capture_default_str()
      ->check(no_empty_text());
  command.add_option("--remote-weft", to.weft, "The weft command there")
      ->capture_default_str()
      ->check(no_empty_text());
  command.add_option("--timeout", to.timeout_s, "Seconds that hosts have to answer")
      ->capture_default_str()
      ->check(number_in(0.1, 3600.0));
  return options;
}

Result<std::vector<std::string>> hosts_of(const HostArguments& asked) {
  if (!asked.hostfile.empty()) return hosts_in(asked.hostfile);
  std::vector<std::string> hosts = split(asked.hosts, ',');
  for (const std::string& host : hosts) WEFT_RETURN_IF_ERROR(check_host(host, "--hosts"));
  return hosts;
}

std::vector<HostAnswer> ask_hosts(const std::vector<std::string>& hosts, const HostArguments& by,
                                  const std::vector<std::string>& words, Progress& progress) {
  std::vector<HostAnswer> answers;
  for (std::size_t begin = 0; begin < hosts.size(); begin += kAtOnce) {
    const std::size_t end = std::min(begin + kAtOnce, hosts.size());
    progress.say(fmt::format("{} of {} hosts have been asked", begin, hosts.size()));
    Group group(by.timeout_s);
    for (std::size_t i = begin; i < end; ++i) {
      std::vector<std::string> command = split(by.ssh, ' ');
      command.push_back(hosts[i]);
      command.push_back(by.weft);
      command.insert(command.end(), words.begin(), words.end());
      group.ask(hosts[i], std::move(command));
    }
    group.await(answers);
  }
  return answers;
}

}  // namespace weft
