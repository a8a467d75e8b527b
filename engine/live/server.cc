// The rank's side.
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "engine/answer/answer.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/live/folder.h"

namespace weft {
namespace {

constexpr int kBacklog = 64;
constexpr mode_t kOurs = 0700;

class Server final : public LiveServer {
 public:
  explicit Server(LiveOptions options) : options_(std::move(options)) {}
  ~Server() override {
    server_.reset();
    if (!path_.empty()) (void)::unlink(path_.c_str());
  }

  Status start();

 private:
  [[nodiscard]] std::optional<std::string> answer_to(std::string_view text) const;

  const LiveOptions options_;
  std::string path_;
  std::unique_ptr<AnswerServer> server_;
};

// Those that processes left which have ended: nobody listens there. Other jobs' are left if they are alive.
void remove_left(const std::string& folder) {
  const Result<std::vector<LiveSocket>> all = list_live(folder);
  if (!all.ok()) return;
  for (const LiveSocket& each : *all) {
    const Result<sockaddr_un> address = live::address_of(each.path);
    const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!address.ok() || !probe.valid()) continue;
    if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) !=
            0 &&
        errno == ECONNREFUSED)
      (void)::unlink(each.path.c_str());
  }
}

// It listens before it gets its name, so that whoever finds it can connect.
Status Server::start() {
  const std::string folder = live_folder(options_.folder);
  if (::mkdir(folder.c_str(), kOurs) != 0 && errno != EEXIST)
    return system_error("making the folder " + folder, errno);
  WEFT_RETURN_IF_ERROR(live::check_folder(folder));
  remove_left(folder);
  const std::string path =
      fmt::format("{}/{}-{}-{}", folder, options_.job, options_.rank, ::getpid());
  const std::string fresh = path + ".new";
  WEFT_ASSIGN(const sockaddr_un address, live::address_of(fresh));
  Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return system_error("a local socket", errno);
  (void)::unlink(fresh.c_str());
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return system_error("a socket in the folder " + folder, errno);
  if (::listen(listener.get(), kBacklog) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    const int error = errno;
    (void)::unlink(fresh.c_str());
    return system_error("a socket in the folder " + folder, error);
  }
  path_ = path;
  AnswerOptions answers{.thread_name = "weft-live",
                        .most_clients = kMostClients,
                        .most_bytes = live::kMostQuestion,
                        .question_ms = kQuestionMs,
                        .answer_ms = kAnswerMs};
  answers.admits = [](const Fd& client) {
    pid_t process = 0;
    return live::is_own_user(client, process);
  };
  answers.answer = [this](std::string_view text) { return answer_to(text); };
  WEFT_ASSIGN(server_, AnswerServer::start(std::move(listener), std::move(answers)));
  return {};
}

// A question is a line.
std::optional<std::string> Server::answer_to(std::string_view text) const {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view question = text.substr(0, end);
  if (!question.starts_with(live::kGreeting))
    return "error another version: this rank speaks weft-live 1\n";
  question.remove_prefix(live::kGreeting.size());
  const std::size_t space = question.find(' ');
  if (space == std::string_view::npos || !same_proof(question.substr(0, space), options_.job))
    return "error another job\n";
  question.remove_prefix(space + 1);
  const std::string answer = options_.answer(question);
  return answer.empty() ? fmt::format("error no such question: {}\n", question) : "ok\n" + answer;
}

}  // namespace

Result<std::shared_ptr<LiveServer>> LiveServer::open(LiveOptions options) {
  auto server = std::make_shared<Server>(std::move(options));
  if (Status status = server->start(); !status.ok())
    return Status(status.code(), fmt::format("WEFT_LIVE: {}", status.text()));
  return std::shared_ptr<LiveServer>(std::move(server));
}

}  // namespace weft
