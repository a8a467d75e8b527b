// The log: one line on standard error per event, "weft[rank] warning: …". Control path only; hot
// paths write counters and trace records. Thread safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "verbs/base/ids.h"

namespace weft {

enum class LogLevel : std::uint8_t { debug, info, warning, error, off };

// Sets the lowest level printed (default: warning) and the rank shown (default: none).
void set_log(LogLevel lowest, Rank rank);
void log(LogLevel level, std::string_view text);

}  // namespace weft
