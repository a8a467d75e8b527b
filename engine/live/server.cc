// The rank's side: one thread for all who ask.
#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "engine/bootstrap/bootstrap.h"
#include "engine/live/folder.h"

namespace weft {
namespace {

constexpr int kBacklog = 64;
constexpr int kMostTaken = 64;  // in one go
constexpr int kPauseMs = 100;   // after accept() failed for lack of descriptors
constexpr mode_t kOurs = 0700;

class Server final : public LiveServer {
 public:
  explicit Server(LiveOptions options) : options_(std::move(options)) {}
  ~Server() override {
    stops_.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    if (bell_.valid()) (void)!::write(bell_.get(), &one, sizeof one);
    thread_.join();
    if (!path_.empty()) (void)::unlink(path_.c_str());
  }

  Status start();

 private:
  struct Client {
    Fd socket;
    std::string question;
    std::string answer;
    std::size_t sent = 0;
    bool has_asked = false;
    std::int64_t until_ns = 0;
  };

  void run();
  void wait() const;
  bool accept_clients();
  bool serve(Client& client);
  bool read_question(Client& client) const;
  [[nodiscard]] std::string answer_to(std::string_view question) const;

  const LiveOptions options_;
  std::string path_;
  Fd listener_, bell_;
  std::vector<Client> clients_;
  std::atomic<bool> stops_{false};
  Thread thread_;
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
  listener_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_.valid()) return system_error("a local socket", errno);
  (void)::unlink(fresh.c_str());
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return system_error("a socket in the folder " + folder, errno);
  if (::listen(listener_.get(), kBacklog) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    const int error = errno;
    (void)::unlink(fresh.c_str());
    return system_error("a socket in the folder " + folder, error);
  }
  path_ = path;
  bell_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell_.valid()) return system_error("an eventfd", errno);
  WEFT_ASSIGN(thread_, start_thread("weft-live", [this] { run(); }));
  return {};
}

void Server::run() {
  while (!stops_.load(std::memory_order_acquire)) {
    wait();
    std::erase_if(clients_, [this, now = now_ns()](Client& client) {
      return serve(client) || client.until_ns <= now;
    });
    if (!accept_clients()) (void)::poll(nullptr, 0, kPauseMs);
  }
}

void Server::wait() const {
  std::vector<pollfd> all{{bell_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  int timeout_ms = -1;
  for (const Client& client : clients_) {
    all.push_back({client.socket.get(), client.has_asked ? short{POLLOUT} : short{POLLIN}, 0});
    const int left = Deadline::at_ns(client.until_ns).left_ms();
    timeout_ms = timeout_ms < 0 ? left : std::min(timeout_ms, left);
  }
  (void)::poll(all.data(), all.size(), timeout_ms);
}

// False: the system has no descriptor for the next one.
bool Server::accept_clients() {
  for (int taken = 0; taken < kMostTaken; ++taken) {
    Client client;
    client.socket = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client.socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
    pid_t process = 0;
    if (!live::is_own_user(client.socket, process)) continue;
    client.until_ns = Deadline::after_ms(kQuestionMs).ns();
    if (serve(client)) continue;
    if (clients_.size() == kMostClients) {
      const auto silent = std::ranges::find(clients_, false, &Client::has_asked);
      clients_.erase(silent == clients_.end() ? clients_.begin() : silent);
    }
    clients_.push_back(std::move(client));
  }
  return true;
}

// Goes on with the client as far as it goes; whether it is done with.
bool Server::serve(Client& client) {
  if (!client.has_asked && !read_question(client))
    return client.question.size() > live::kMostQuestion;
  while (client.sent < client.answer.size()) {
    const ssize_t count = ::send(client.socket.get(), client.answer.data() + client.sent,
                                 client.answer.size() - client.sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno != EAGAIN && errno != EWOULDBLOCK;
    client.sent += static_cast<std::size_t>(count);
  }
  return true;
}

// Whether the question is there, and with it the answer. What is no question makes the client one to end: its
// question is then longer than one may be.
bool Server::read_question(Client& client) const {
  std::array<char, live::kMostQuestion + 1> bytes{};
  const ssize_t got = ::recv(client.socket.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (got > 0) client.question.append(bytes.data(), static_cast<std::size_t>(got));
  const std::size_t end = client.question.find('\n');
  if (end == std::string::npos || end > live::kMostQuestion) {
    if (got <= 0) client.question.resize(live::kMostQuestion + 1);
    return false;
  }
  client.answer = answer_to(std::string_view(client.question).substr(0, end));
  client.has_asked = true;
  client.until_ns = Deadline::after_ms(kAnswerMs).ns();
  return true;
}

std::string Server::answer_to(std::string_view question) const {
  if (!question.starts_with(live::kGreeting))
    return "error another version: this rank speaks weft-live 1\n";
  question.remove_prefix(live::kGreeting.size());
  const std::size_t space = question.find(' ');
  if (space == std::string_view::npos || !same_proof(question.substr(0, space), options_.job))
    return "error another job\n";
  question.remove_prefix(space + 1);
  const std::string text = options_.answer(question);
  return text.empty() ? fmt::format("error no such question: {}\n", question) : "ok\n" + text;
}

}  // namespace

Result<std::shared_ptr<LiveServer>> LiveServer::open(LiveOptions options) {
  auto server = std::make_shared<Server>(std::move(options));
  if (Status status = server->start(); !status.ok())
    return Status(status.code(), fmt::format("WEFT_LIVE: {}", status.text()));
  return std::shared_ptr<LiveServer>(std::move(server));
}

}  // namespace weft
