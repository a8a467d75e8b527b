// Command lines, children and tables of perftest.
#include "tools/weft/wire/perftest.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "engine/config/config.h"
#include "tools/weft/common/ending.h"

namespace weft {
namespace {

constexpr std::int64_t kStartMs = 20'000;
constexpr std::int64_t kEndMs = 5'000;
constexpr int kLookMs = 10;
constexpr int kLeastIterations = 5;  // perftest takes no fewer

Result<Child> start(const std::vector<std::string>& command) {
  Result<Child> child = start_child({.command = command, .environment = environment()});
  if (child.ok() || child.status().code() != Code::unavailable) return child;
  return Status(Code::unavailable,
                fmt::format("--against perftest: {} (package perftest)", child.status().text()));
}

// What it printed, once it has ended well.
Result<std::string> output_of(Child& child, Deadline deadline) {
  const Ending ending = await_end(child, deadline);
  if (!ending.in_time) return Status(Code::mismatch, "perftest did not end: " + ending.out);
  if (ending.status == 0) return ending.out;
  const std::string how = WIFEXITED(ending.status)
                              ? fmt::format("status {}", WEXITSTATUS(ending.status))
                              : fmt::format("signal {}", WTERMSIG(ending.status));
  return Status(Code::mismatch,
                fmt::format("perftest ended with {}: {}{}", how, ending.out, ending.err));
}

Result<int> free_port() {
  const Fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  socklen_t size = sizeof any;
  auto* address = reinterpret_cast<sockaddr*>(&any);
  if (::bind(probe.get(), address, size) != 0 || ::getsockname(probe.get(), address, &size) != 0)
    return system_error("a free port for perftest", errno);
  return ntohs(any.sin_port);
}

// The kernel's tables: a connection would be taken for the other side.
bool somebody_listens(int port) {
  const std::string wanted = fmt::format(":{:04X} ", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      if (line.find(wanted) != std::string::npos && line.find(" 0A ") != std::string::npos)
        return true;
    }
  }
  return false;
}

}  // namespace

std::string perftest_program(const WireTask& task) {
  const std::string_view op = task.op == WireOp::notice ? "send" : name(task.op);
  return fmt::format("ib_{}_{}", op, task.depth == 1 ? "lat" : "bw");
}

std::vector<std::string> perftest_command(const WireTask& task, const WirePath& path, int port,
                                          const std::string& host) {
  const int iterations = std::max(static_cast<int>(task.iterations), kLeastIterations);
  std::vector<std::string> words{perftest_program(task),           "-d", path.device.name,     "-i",
                                 std::to_string(path.device.port), "-p", std::to_string(port), "-n",
                                 std::to_string(iterations),       "-F"};
  const auto add = [&](const char* option, auto value) {
    words.insert(words.end(), {option, fmt::format("{}", value)});
  };
  add("-u", path.timeout);
  if (path.gid_index >= 0) add("-x", path.gid_index);
  if (path.mtu > 0) add("-m", path.mtu);
  if (path.service_level != 0) add("-S", path.service_level);
  if (path.traffic_class != 0) add("--tclass", path.traffic_class);
  if (task.op == WireOp::atomic) {
    add("-A", "CMP_AND_SWAP");
  } else {
    add("-s", task.bytes);
  }
  if (task.depth > 1) add("-t", task.depth);
  if (task.list > 1) add("-l", task.list);
  if (!host.empty()) words.push_back(host);
  return words;
}

Result<PerftestFigure> perftest_figure(const std::string& printed, bool is_latency) {
  std::istringstream lines(printed);
  std::string line;
  while (std::getline(lines, line) && line.find("#bytes") == std::string::npos) {
  }
  std::getline(lines, line);
  std::istringstream words(line);
  std::vector<double> columns;
  for (double value = 0; words >> value && value >= 0;) columns.push_back(value);
  // bytes, iterations, and: peak, average, Mpps; or least, most, typical, average, deviation, p99.
  if (columns.size() < (is_latency ? 8U : 5U))
    return Status(Code::mismatch, "perftest printed no figures: " + printed);
  PerftestFigure figure;
  double& measured = is_latency ? figure.typical_us : figure.average_mib;
  measured = columns[is_latency ? 4 : 3];
  if (measured == 0) return Status(Code::mismatch, "perftest measured nothing: " + printed);
  return figure;
}

Status perftest_is_here(const WireTask& task) {
  WEFT_ASSIGN(Child child, start({perftest_program(task), "--version"}));
  (void)has_ended(child, kEndMs);
  end(child);
  return {};
}

Result<PerftestServer> PerftestServer::start(const WireTask& task, const WirePath& path) {
  WEFT_ASSIGN(const int port, free_port());
  WEFT_ASSIGN(Child child, weft::start(perftest_command(task, path, port, "")));
  PerftestServer server(std::move(child), port);
  WEFT_RETURN_IF_ERROR(server.await_listening());
  return server;
}

Status PerftestServer::await_listening() {
  const Deadline deadline = Deadline::after_ms(kStartMs);
  while (!somebody_listens(port_)) {
    if (has_ended(child_, kLookMs)) {
      WEFT_ASSIGN(const std::string said, output_of(child_, deadline));
      return Status(Code::mismatch, "perftest ended instead of listening: " + said);
    }
    if (deadline.passed()) return Status(Code::mismatch, "perftest does not listen");
  }
  return {};
}

PerftestServer::~PerftestServer() {
  end(child_);
}

void PerftestServer::finish() {
  (void)has_ended(child_, kEndMs);
  end(child_);
}

Result<PerftestFigure> run_perftest(const WireTask& task, const WirePath& path, int port,
                                    const std::string& host, Deadline deadline) {
  WEFT_ASSIGN(Child child, start(perftest_command(task, path, port, host)));
  WEFT_ASSIGN(const std::string printed, output_of(child, deadline));
  return perftest_figure(printed, task.depth == 1);
}

}  // namespace weft
