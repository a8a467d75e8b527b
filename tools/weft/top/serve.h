// MetricServer: the latest metrics over HTTP/1.1, for Prometheus. Internal to the command.
//
//   WEFT_ASSIGN(std::unique_ptr<MetricServer> server, MetricServer::open("127.0.0.1:9464"));
//   server->publish(text);
//
// It answers GET and HEAD of /metrics, and / with a line that says so; all else is an error of HTTP. Each
// connection is for one request (engine/answer).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

class MetricServer {
 public:
  static constexpr std::size_t kMostClients = 16;
  static constexpr std::size_t kMostBytes = 8192;    // of a request's head
  static constexpr std::int64_t kPatienceMs = 2000;  // for a client to ask, and to take the answer

  // "ADDRESS:PORT", "[ADDRESS]:PORT"; port 0: any. Errors name what was asked for.
  static Result<std::unique_ptr<MetricServer>> open(const std::string& address);
  virtual ~MetricServer() = default;
  // What is answered from now on. Any thread.
  virtual void publish(std::string text) = 0;
  // "127.0.0.1:9464": where it listens.
  [[nodiscard]] virtual std::string address() const = 0;
};

// The answer to a request, from its first line up to the empty one. Pure.
[[nodiscard]] std::string http_answer(std::string_view request, std::string_view metrics);

}  // namespace weft
