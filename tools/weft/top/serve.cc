// A thread that sleeps until somebody asks.
#include "tools/weft/top/serve.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/bootstrap/bootstrap.h"

namespace weft {
namespace {

constexpr int kBacklog = 128;
constexpr int kPauseMs = 100;  // after accept() failed for lack of descriptors

std::string response(std::string_view status, std::string_view type, std::string_view body,
                     bool with_body) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nX-Content-Type-Options: nosniff\r\n"
      "Connection: close\r\n\r\n{}",
      status, type, body.size(), with_body ? body : std::string_view());
}

std::string refusal(std::string_view status) {
  return response(status, "text/plain; charset=utf-8", std::string(status) + "\n", true);
}

struct Address {
  std::string host, port;
};

// "127.0.0.1:9464", "[::1]:9464".
Result<Address> address_of(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size())
    return Status(Code::invalid_argument,
                  fmt::format("--prometheus {}: expected ADDRESS:PORT", text));
  std::uint16_t port = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + colon + 1, last, port);
  if (error != std::errc{} || end != last)
    return Status(Code::invalid_argument,
                  fmt::format("--prometheus {}: its port is no number up to 65535", text));
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return Address{std::move(host), text.substr(colon + 1)};
}

class Server final : public MetricServer {
 public:
  ~Server() override {
    stops_.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    if (bell_.valid()) (void)!::write(bell_.get(), &one, sizeof one);
    thread_.join();
  }

  Status start(const std::string& where);

  void publish(std::string text) override {
    const std::lock_guard lock(mutex_);
    metrics_ = std::move(text);
  }
  [[nodiscard]] std::string address() const override { return address_; }

 private:
  struct Client {
    Fd socket;
    std::string request;
    std::string answer;
    std::size_t sent = 0;
    std::int64_t until_ns = 0;
  };

  Status listen_at(const addrinfo& found);
  Status note_address();
  void run();
  void wait() const;
  bool accept_clients();
  bool serve(Client& client);
  void read_request(Client& client);

  std::string address_;
  Fd listener_, bell_;
  std::vector<Client> clients_;
  std::mutex mutex_;
  std::string metrics_;
  std::atomic<bool> stops_{false};
  Thread thread_;
};

Status Server::listen_at(const addrinfo& found) {
  listener_ = Fd(::socket(found.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_.valid()) return system_error("a socket", errno);
  const int yes = 1;
  (void)::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(listener_.get(), found.ai_addr, found.ai_addrlen) != 0 ||
      ::listen(listener_.get(), kBacklog) != 0)
    return system_error("listening", errno);
  return {};
}

Status Server::note_address() {
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* const any = reinterpret_cast<sockaddr*>(&own);
  if (::getsockname(listener_.get(), any, &bytes) != 0 ||
      ::getnameinfo(any, bytes, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return system_error("the own address", errno);
  const std::string name =
      own.ss_family == AF_INET6 ? fmt::format("[{}]", host.data()) : host.data();
  address_ = fmt::format("{}:{}", name, port.data());
  return {};
}

Status Server::start(const std::string& where) {
  WEFT_ASSIGN(const Address asked, address_of(where));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(asked.host.c_str(), asked.port.c_str(), &hints, &found);
      error != 0)
    return Status(Code::invalid_argument,
                  fmt::format("--prometheus {}: {}", where, ::gai_strerror(error)));
  const Status listens = listen_at(*found);
  ::freeaddrinfo(found);
  if (!listens.ok())
    return Status(listens.code(), fmt::format("--prometheus {}: {}", where, listens.text()));
  WEFT_RETURN_IF_ERROR(note_address());
  bell_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell_.valid()) return system_error("an eventfd", errno);
  WEFT_ASSIGN(thread_, start_thread("weft-http", [this] { run(); }));
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
    all.push_back({client.socket.get(), client.answer.empty() ? short{POLLIN} : short{POLLOUT}, 0});
    const int left = Deadline::at_ns(client.until_ns).left_ms();
    timeout_ms = timeout_ms < 0 ? left : std::min(timeout_ms, left);
  }
  (void)::poll(all.data(), all.size(), timeout_ms);
}

// False: the system has no descriptor for the next one.
bool Server::accept_clients() {
  for (std::size_t taken = 0; taken < kMostClients; ++taken) {
    Client client;
    client.socket = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client.socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
    client.until_ns = Deadline::after_ms(kPatienceMs).ns();
    if (clients_.size() == kMostClients) clients_.erase(clients_.begin());
    clients_.push_back(std::move(client));
  }
  return true;
}

// Goes on with the client as far as it goes; whether it is done with.
bool Server::serve(Client& client) {
  if (client.answer.empty()) read_request(client);
  if (client.answer.empty()) return !client.socket.valid();
  while (client.sent < client.answer.size()) {
    const ssize_t count = ::send(client.socket.get(), client.answer.data() + client.sent,
                                 client.answer.size() - client.sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno != EAGAIN && errno != EWOULDBLOCK;
    client.sent += static_cast<std::size_t>(count);
  }
  return true;
}

// Once the head is there, or too long, there is an answer. A client that has gone has no socket.
void Server::read_request(Client& client) {
  std::array<char, 4096> bytes{};
  const ssize_t got = ::recv(client.socket.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got <= 0) return client.socket.reset();
  client.request.append(bytes.data(), static_cast<std::size_t>(got));
  const std::size_t end = client.request.find("\r\n\r\n");
  if (end == std::string::npos && client.request.size() <= kMostBytes) return;
  const std::lock_guard lock(mutex_);
  client.answer = end == std::string::npos
                      ? refusal("431 Request Header Fields Too Large")
                      : http_answer(std::string_view(client.request).substr(0, end), metrics_);
}

}  // namespace

std::string http_answer(std::string_view request, std::string_view metrics) {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last ||
      !line.substr(last + 1).starts_with("HTTP/1."))
    return refusal("400 Bad Request");
  const std::string_view method = line.substr(0, first);
  std::string_view path = line.substr(first + 1, last - first - 1);
  path = path.substr(0, path.find('?'));
  if (method != "GET" && method != "HEAD") return refusal("405 Method Not Allowed");
  const bool with_body = method == "GET";
  if (path == "/metrics")
    return response("200 OK", "text/plain; version=0.0.4; charset=utf-8", metrics, with_body);
  if (path == "/")
    return response("200 OK", "text/plain; charset=utf-8", "weft top: /metrics\n", with_body);
  return refusal("404 Not Found");
}

Result<std::unique_ptr<MetricServer>> MetricServer::open(const std::string& address) {
  auto server = std::make_unique<Server>();
  WEFT_RETURN_IF_ERROR(server->start(address));
  return std::unique_ptr<MetricServer>(std::move(server));
}

}  // namespace weft
