// mpirun as a child with a pipe to and from its rank 0.
#include "tools/weft/perf/peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/weft/common/pipe.h"

namespace weft {
namespace {

constexpr std::int64_t kAnswerMs = 90'000;
constexpr std::int64_t kGoodbyeMs = 5'000;

// Built next to this program.
Result<std::string> program() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto peer = self.parent_path() / "peer_openmpi";
  if (!error && std::filesystem::exists(peer, error)) return peer.string();
  return Status(Code::unavailable,
                peer.string() + " is not there: it is built where mpicc is found");
}

// The peer binds its own ranks to cores, as ours are, so mpirun must not; and it must see all
// cores, or it would take this rank's one core for the whole machine.
std::vector<std::string> command_line(const PeerJob::Options& options, const std::string& peer) {
  std::vector<std::string> words{
      "mpirun", "--allow-run-as-root",        "--oversubscribe", "--bind-to", "none",
      "-n",     std::to_string(options.ranks)};
  if (options.name == "openmpi-huge") {
    words.insert(words.begin(), {"env", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"});
  }
  words.insert(words.end(), {peer, options.graph, std::to_string(options.most_bytes),
                             options.binds ? "core" : "none",
                             options.name == "openmpi-create" ? "create" : "allocate"});
  return words;
}

// Between fork and exec only system calls: other threads of ours may hold locks.
[[noreturn]] void become(char* const* argv, int in, int out) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  (void)unbind();
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::execvp(argv[0], argv);
  ::_exit(127);
}

}  // namespace

Result<std::unique_ptr<PeerJob>> PeerJob::start(const Options& options) {
  WEFT_ASSIGN(const std::string peer, program());
  std::vector<std::string> words = command_line(options, peer);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  WEFT_ASSIGN(Pipe requests, make_pipe());
  WEFT_ASSIGN(Pipe answers, make_pipe());
  ::signal(SIGPIPE, SIG_IGN);
  const pid_t process = ::fork();
  if (process < 0) return system_error("fork", errno);
  if (process == 0) become(argv.data(), requests.read.get(), answers.write.get());
  return std::unique_ptr<PeerJob>(
      new PeerJob(process, std::move(requests.write), std::move(answers.read)));
}

PeerJob::~PeerJob() {
  requests_.reset();  // the end of its input is the peer's sign to leave
  for (const Deadline patience = Deadline::after_ms(kGoodbyeMs); !patience.passed();) {
    if (::waitpid(process_, nullptr, WNOHANG) == process_) return;
    ::poll(nullptr, 0, 10);
  }
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

Result<std::string> PeerJob::read_line(Deadline deadline) {
  for (;;) {
    if (const std::size_t end = partial_.find('\n'); end != std::string::npos) {
      std::string line = partial_.substr(0, end);
      partial_.erase(0, end + 1);
      return line;
    }
    pollfd ready{answers_.get(), POLLIN, 0};
    if (::poll(&ready, 1, deadline.left_ms()) == 0) {
      return Status(Code::timed_out, "the peer's job did not answer");
    }
    std::array<char, 4096> bytes;
    const ssize_t got = ::read(answers_.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Status(Code::unavailable, "the peer's job ended (is mpirun installed?)");
    partial_.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

Result<PeerJob::Answer> PeerJob::measure(std::string_view operation, std::size_t bytes,
                                         const Trial& trial) {
  const std::string request =
      fmt::format("{} {} {} {}\n", operation, bytes, trial.laps, trial.batch);
  if (::write(requests_.get(), request.data(), request.size()) !=
      static_cast<ssize_t>(request.size())) {
    return Status(Code::unavailable, "the peer's job does not listen (is mpirun installed?)");
  }
  WEFT_ASSIGN(const std::string line, read_line(Deadline::after_ms(kAnswerMs)));
  const auto answer = nlohmann::json::parse(line, nullptr, false);
  if (!answer.is_object() || !answer.contains("p50_us") || !answer.contains("cpu_s_per_GiB")) {
    return Status(Code::mismatch, "the peer's job answered '" + line + "'");
  }
  return Answer{answer["p50_us"], answer["cpu_s_per_GiB"]};
}

}  // namespace weft
