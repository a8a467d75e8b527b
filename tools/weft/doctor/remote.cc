// Hosts behind ssh, or any program that runs a command on a host. All are asked at once, in groups, and
// those that have not answered in time are ended.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tools/weft/common/child.h"
#include "tools/weft/common/ending.h"
#include "tools/weft/common/progress.h"
#include "tools/weft/doctor/collect.h"

namespace weft {
namespace {

constexpr std::size_t kAtOnce = 64;  // each has a process and three descriptors here
constexpr std::size_t kMostBytes = std::size_t{20} << 20;

double clock_s() {
  constexpr double kNanosecond = 1e-9;
  return static_cast<double>(wall_clock_ns()) * kNanosecond;
}

struct Asked {
  std::string host;
  Child child;
  double asked_s = 0, answered_s = 0;  // by this host's clock
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
  const std::size_t begin = text.find_last_of('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

// A shell may greet before the facts.
Result<HostFacts> understood(const Asked& asked) {
  const std::size_t begin = asked.out.find('{');
  if (begin != std::string::npos && asked.status == 0) {
    WEFT_ASSIGN(HostFacts facts, facts_from_json(asked.out.substr(begin)));
    const double told = static_cast<double>(facts.clock_ns) * 1e-9;
    facts.clock_least_s = told - asked.answered_s;
    facts.clock_most_s = told - asked.asked_s;
    return facts;
  }
  const std::string said = last_line(asked.err);
  if (!said.empty()) return Status(Code::unavailable, said);
  if (WIFSIGNALED(asked.status))
    return Status(Code::unavailable,
                  fmt::format("the command was killed by signal {}", WTERMSIG(asked.status)));
  return Status(Code::unavailable, fmt::format("the command ended with status {} and no facts",
                                               WEXITSTATUS(asked.status)));
}

class Group {
 public:
  Group(const RemoteCommand& command, Collected& found) : command_(command), found_(found) {}

  void ask(const std::string& host) {
    ChildOptions options;
    options.command = command_.shell;
    for (const std::string& word :
         {host, command_.weft, std::string("doctor"), std::string("--facts")})
      options.command.push_back(word);
    options.environment = environment();
    Asked asked;
    asked.host = host;
    asked.asked_s = clock_s();
    Result<Child> child = start_child(options);
    if (child.ok()) {
      asked.child = *std::move(child);
      asked_.push_back(std::move(asked));
    } else {
      found_.missing.push_back({host, std::string(child.status().text())});
    }
  }

  void await(Deadline deadline) {
    while (!deadline.passed() && !std::ranges::all_of(asked_, &Asked::is_over)) turn(deadline);
    for (Asked& asked : asked_) settle(asked);
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
      asked.answered_s = clock_s();
      asked.is_over = true;
    }
  }

  void settle(Asked& asked) {
    if (!asked.is_over) {
      end(asked.child);
      found_.missing.push_back(
          {asked.host, fmt::format("does not answer within {} s (--timeout)", command_.seconds)});
      return;
    }
    Result<HostFacts> facts = understood(asked);
    if (facts.ok()) {
      found_.hosts.push_back(*std::move(facts));
    } else {
      found_.missing.push_back({asked.host, std::string(facts.status().text())});
    }
  }

  const RemoteCommand& command_;
  Collected& found_;
  std::vector<Asked> asked_;
};

}  // namespace

Collected collect_remote(const std::vector<std::string>& hosts, const RemoteCommand& command) {
  constexpr double kMs = 1e3;
  Collected found;
  Progress progress("weft doctor");
  for (std::size_t begin = 0; begin < hosts.size(); begin += kAtOnce) {
    const std::size_t end = std::min(begin + kAtOnce, hosts.size());
    progress.say(fmt::format("{} of {} hosts have answered", found.hosts.size(), hosts.size()));
    Group group(command, found);
    for (std::size_t i = begin; i < end; ++i) group.ask(hosts[i]);
    group.await(Deadline::after_ms(static_cast<std::int64_t>(command.seconds * kMs)));
  }
  return found;
}

}  // namespace weft
