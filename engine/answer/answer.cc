// A loop of poll(): the bell, the listener, and the clients.
#include "engine/answer/answer.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>
#include <vector>

namespace weft {
namespace {

constexpr int kMostTaken = 64;  // in one go
constexpr int kPauseMs = 100;   // after accept() failed for lack of descriptors
constexpr std::size_t kReadBytes = 4096;

bool is_for_later(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

class Server final : public AnswerServer {
 public:
  Server(Fd listener, AnswerOptions options)
      : options_(std::move(options)), listener_(std::move(listener)) {}
  ~Server() override {
    stops_.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    if (bell_.valid()) (void)!::write(bell_.get(), &one, sizeof one);
    thread_.join();
  }

  Status start() {
    bell_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell_.valid()) return system_error("an eventfd", errno);
    WEFT_ASSIGN(thread_, start_thread(options_.thread_name, [this] { run(); }));
    return {};
  }

 private:
  struct Client {
    Fd socket;
    std::string question;
    std::optional<std::string> answer;
    std::size_t sent = 0;
    std::int64_t until_ns = 0;
    bool is_gone = false;

    [[nodiscard]] bool has_asked() const { return answer.has_value(); }
  };

  void run() {
    while (!stops_.load(std::memory_order_acquire)) {
      wait();
      std::erase_if(clients_, [this, now = now_ns()](Client& client) {
        return serve(client) || client.until_ns <= now;
      });
      if (!accept_clients()) (void)::poll(nullptr, 0, kPauseMs);
    }
  }

  void wait() const {
    std::vector<pollfd> all{{bell_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    int timeout_ms = -1;
    for (const Client& client : clients_) {
      all.push_back({client.socket.get(), client.has_asked() ? short{POLLOUT} : short{POLLIN}, 0});
      const int left = Deadline::at_ns(client.until_ns).left_ms();
      timeout_ms = timeout_ms < 0 ? left : std::min(timeout_ms, left);
    }
    (void)::poll(all.data(), all.size(), timeout_ms);
  }

  // False: the system has no descriptor for the next one.
  bool accept_clients() {
    for (int taken = 0; taken < kMostTaken; ++taken) {
      Client client;
      client.socket =
          Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!client.socket.valid()) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        return errno == EAGAIN || errno == EWOULDBLOCK;
      }
      if (options_.admits && !options_.admits(client.socket)) continue;
      client.until_ns = Deadline::after_ms(options_.question_ms).ns();
      if (serve(client)) continue;
      if (clients_.size() == options_.most_clients) {
        const auto silent = std::ranges::find(clients_, false, &Client::has_asked);
        clients_.erase(silent == clients_.end() ? clients_.begin() : silent);
      }
      clients_.push_back(std::move(client));
    }
    return true;
  }

  // Goes on with the client as far as it goes; whether it is done with.
  bool serve(Client& client) {
    if (!client.has_asked()) read_question(client);
    if (client.is_gone) return true;
    if (!client.has_asked()) return false;
    while (client.sent < client.answer->size()) {
      const ssize_t count = ::send(client.socket.get(), client.answer->data() + client.sent,
                                   client.answer->size() - client.sent, MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return !is_for_later(errno);
      client.sent += static_cast<std::size_t>(count);
    }
    return true;
  }

  void read_question(Client& client) const {
    std::array<char, kReadBytes> bytes{};
    const std::size_t wanted =
        std::min(bytes.size(), options_.most_bytes + 1 - client.question.size());
    const ssize_t got = ::recv(client.socket.get(), bytes.data(), wanted, 0);
    if (got < 0 && is_for_later(errno)) return;
    client.is_gone = got <= 0;
    if (client.is_gone) return;
    client.question.append(bytes.data(), static_cast<std::size_t>(got));
    client.answer = options_.answer(client.question);
    client.is_gone = !client.answer && client.question.size() > options_.most_bytes;
    client.until_ns =
        client.has_asked() ? Deadline::after_ms(options_.answer_ms).ns() : client.until_ns;
  }

  const AnswerOptions options_;
  const Fd listener_;
  Fd bell_;
  std::vector<Client> clients_;
  std::atomic<bool> stops_{false};
  Thread thread_;
};

}  // namespace

Result<std::unique_ptr<AnswerServer>> AnswerServer::start(Fd listener, AnswerOptions options) {
  auto server = std::make_unique<Server>(std::move(listener), std::move(options));
  WEFT_RETURN_IF_ERROR(server->start());
  return std::unique_ptr<AnswerServer>(std::move(server));
}

}  // namespace weft
