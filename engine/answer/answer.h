// answer: answers whoever connects to a listening socket: one question, one answer, and the connection is closed.
//
//   WEFT_ASSIGN(std::unique_ptr<AnswerServer> server, AnswerServer::start(std::move(listener), options));
//
// Clients are served side by side, by one thread, which sleeps while nobody asks. A client that is silent, slow or
// gone delays nobody. A client that has not asked costs its descriptor and the bytes that it has sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

struct AnswerOptions {
  const char* thread_name = "";
  std::size_t most_clients =
      16;  // a further one replaces the oldest that has not asked, or the oldest
  std::size_t most_bytes = 0;  // of a question; what is longer by a byte is given to `answer`, too
  std::int64_t question_ms = 0;  // for a client's question to come
  std::int64_t answer_ms = 0;    // for a client to take the answer
  // Both run on the server's thread. Whether the client may ask; empty: all may.
  std::function<bool(const Fd& client)> admits{};
  // The answer to what has come so far. Nothing: it is not whole. Empty: the client is not answered.
  std::function<std::optional<std::string>(std::string_view question)> answer{};
};

class AnswerServer {
 public:
  // The socket is non-blocking.
  [[nodiscard]] static Result<std::unique_ptr<AnswerServer>> start(Fd listener,
                                                                   AnswerOptions options);
  // Ends the thread. Clients that wait are closed.
  virtual ~AnswerServer() = default;
};

}  // namespace weft
