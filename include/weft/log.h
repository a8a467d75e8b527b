// The log: one record per event of the control path, for people. Records go to one place for the
// whole process: standard error, unless the program has set a sink. By default only warnings and
// errors are logged. Thread safe.
#pragma once

#include <weft/status.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace WEFT_PUBLIC weft {

enum class LogLevel : std::uint8_t { debug, info, warning, error, off };

// "debug", "info", "warning", "error", "off".
[[nodiscard]] std::string_view name(LogLevel level);

// Sets the lowest level of records that belong to no context, and the rank that they carry. Each
// context has the level of its own Config::log.
void set_log(LogLevel lowest, Rank rank);

struct LogRecord {
  LogLevel level;
  Rank rank;              // kNoRank: said for no rank
  std::string_view text;  // until the sink returns
};
using LogSink = std::function<void(const LogRecord&)>;
// From now on every record that is not dropped goes to `sink`, and nothing is printed. An empty sink
// brings back standard error: "weft[3] warning: …". Several threads may call the sink at once, one
// of them may still be in the old sink when this returns, and what the sink throws is dropped.
void set_log_sink(LogSink sink);

}  // namespace weft
