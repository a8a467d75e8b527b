// log: the host's sink.
#include <weft/c/log.h>
#include <weft/log.h>

#include <string>

#include "bindings/c/call.h"

using weft::Status;
using weft::c::argument_error;
using weft::c::call;

static_assert(WEFT_LOG_OFF == static_cast<weft_log_level>(weft::LogLevel::off));

weft_code weft_log_set_sink(weft_log_sink sink, void* user) {
  return call(__func__, [&]() -> Status {
    if (sink == nullptr) {
      weft::set_log_sink({});
      return {};
    }
    weft::set_log_sink([sink, user](const weft::LogRecord& record) {
      const std::string text(record.text);
      sink(user, static_cast<weft_log_level>(record.level), record.rank, text.c_str());
    });
    return {};
  });
}

weft_code weft_log_set_level(weft_log_level lowest, int32_t rank) {
  return call(__func__, [&]() -> Status {
    if (lowest < WEFT_LOG_DEBUG || lowest > WEFT_LOG_OFF)
      return argument_error("lowest", "is " + std::to_string(lowest) + ", which is no level");
    weft::set_log(static_cast<weft::LogLevel>(lowest), rank < 0 ? weft::kNoRank : rank);
    return {};
  });
}
