// The log: one record per event of the control path, for people. Hot paths write counters and trace
// records instead. Thread safe.
//
// A process may hold several contexts, each with a level and a rank of its own. So the level and the
// rank belong to who speaks, not to the process: while a thread works for a context, a LogScope
// names the context's LogVoice, and threads that this thread starts inherit it. Example: a barrier
// of a context with WEFT_LOG=info on rank 3 logs "weft[3] info: …", also when another context of the
// process is silent.
//
// Records go to one place for the whole process: standard error, unless the host has set a sink.
// The log needs no destructor, so static objects may still log while the process exits.
#pragma once

#include <weft/log.h>

#include <string_view>
#include <utility>

#include "verbs/base/ids.h"

namespace weft {

// Who speaks: records below `lowest` are dropped, the others carry `rank` (kNoRank: none).
struct LogVoice {
  LogLevel lowest = LogLevel::warning;
  Rank rank = kNoRank;
};

namespace log_scope {
extern constinit thread_local const LogVoice* current;  // of this thread; null: the process's
}
// While it lives, what this thread logs is said by `voice`. Scopes nest; one belongs to one thread.
// It costs a nanosecond, so that a call that moves a few bytes can have one.
class LogScope {
 public:
  explicit LogScope(LogVoice voice)
      : voice_(voice), before_(std::exchange(log_scope::current, &voice_)) {}
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;
  ~LogScope() { log_scope::current = before_; }

 private:
  const LogVoice voice_;
  const LogVoice* const before_;
};

// The voice of the calling thread: that of its innermost scope, or the process's.
[[nodiscard]] LogVoice log_voice();
// `text` is one sentence without a line end. Dropped if the caller's voice is set higher.
void log(LogLevel level, std::string_view text);

}  // namespace weft
