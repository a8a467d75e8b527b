// What is HTTP of it.
#include "tools/weft/top/serve.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/answer/answer.h"

namespace weft {
namespace {

constexpr int kBacklog = 128;

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
  Status start(const std::string& where);

  void publish(std::string text) override {
    const std::lock_guard lock(mutex_);
    metrics_ = std::move(text);
  }
  [[nodiscard]] std::string address() const override { return address_; }

 private:
  Status listen_at(const addrinfo& found);
  Status note_address();
  [[nodiscard]] std::optional<std::string> answer_to(std::string_view request);

  std::string address_;
  Fd listener_;
  std::mutex mutex_;
  std::string metrics_;
  std::unique_ptr<AnswerServer> server_;
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
  AnswerOptions answers{.thread_name = "weft-http",
                        .most_clients = kMostClients,
                        .most_bytes = kMostBytes,
                        .question_ms = kPatienceMs,
                        .answer_ms = kPatienceMs};
  answers.answer = [this](std::string_view request) { return answer_to(request); };
  WEFT_ASSIGN(server_, AnswerServer::start(std::move(listener_), std::move(answers)));
  return {};
}

// Once the head is there, or too long, there is an answer.
std::optional<std::string> Server::answer_to(std::string_view request) {
  const std::size_t end = request.find("\r\n\r\n");
  if (end == std::string_view::npos && request.size() <= kMostBytes) return std::nullopt;
  if (end == std::string_view::npos) return refusal("431 Request Header Fields Too Large");
  const std::lock_guard lock(mutex_);
  return http_answer(request.substr(0, end), metrics_);
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
