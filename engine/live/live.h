// live: a local socket by which a rank answers `weft flight --live` while it runs. Off unless a setting
// (WEFT_LIVE) names the folder.
//
//   WEFT_ASSIGN(std::shared_ptr<LiveServer> server, LiveServer::open({folder, job, rank, answer}));
//   WEFT_ASSIGN(std::vector<LiveSocket> sockets, list_live(folder));          // in another process
//   WEFT_ASSIGN(LiveAnswer answer, ask_live(sockets[0], "metrics", deadline));
//
// The socket is JOB-RANK-PID in the folder, where JOB is 32 digits that ranks of one job have in common.
// The client sends one line, "weft-live 1 JOB QUESTION", and gets "ok\n" with the answer, or "error …\n";
// then the server closes the connection.
//
// Who is answered. The folder belongs to our user and nobody else may enter it. The kernel says to which user the
// other end belongs (SO_PEERCRED), and both sides accept their own user alone. And the client must name
// the job: its number comes from the job's key by HMAC-SHA256, so it says nothing about the key.
//
// Before a client has asked, it costs 160 bytes and a descriptor, for one second. There are at most
// kMostClients, and engine/answer serves them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

// The number of a job with this key, 32 digits. A job without a key has one of the process that started its ranks
// here.
[[nodiscard]] std::string live_job(std::string_view job_key);
// The folder that a setting means: "auto" is /run/user/UID/weft, or /tmp/weft-UID where that is missing.
[[nodiscard]] std::string live_folder(const std::string& setting);

struct LiveOptions {
  std::string folder;  // as the setting has it
  std::string job;     // live_job()
  Rank rank = 0;
  // Answers a question, on the server's thread; empty: there is no such question.
  std::function<std::string(std::string_view question)> answer;
};

class LiveServer {
 public:
  static constexpr std::size_t kMostClients = 16;
  static constexpr std::int64_t kQuestionMs = 1000;  // for a client's question to come
  static constexpr std::int64_t kAnswerMs = 5000;    // for a client to take the answer

  // Makes the folder if it is missing, and removes sockets in it that processes left which have ended.
  // Errors name the folder. no_permission: it is another user's, or others may enter it.
  static Result<std::shared_ptr<LiveServer>> open(LiveOptions options);
  // Removes the socket.
  virtual ~LiveServer() = default;
};

// A socket in a folder, by its name.
struct LiveSocket {
  std::string path;
  std::string job;
  Rank rank = 0;
};
// Sorted by job and rank. Errors as of open(); a folder that is missing has no sockets.
[[nodiscard]] Result<std::vector<LiveSocket>> list_live(const std::string& setting);

struct LiveAnswer {
  pid_t process = 0;  // of the rank, as the kernel says
  std::string text;
};
// peer_died: the process has ended and left its socket. no_permission: it is another user's. timed_out: it does
// not answer. mismatch: another job, or another version. The text has no path.
[[nodiscard]] Result<LiveAnswer> ask_live(const LiveSocket& socket, std::string_view question,
                                          Deadline deadline);
// Of all, side by side: who does not answer delays nobody.
[[nodiscard]] std::vector<Result<LiveAnswer>> ask_live(std::span<const LiveSocket> sockets,
                                                       std::string_view question,
                                                       Deadline deadline);

}  // namespace weft
