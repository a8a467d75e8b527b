// The C API: the log. Records go to one place for the whole process: standard error, unless the
// program has set a sink.
#pragma once

#include <weft/c/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t weft_log_level;
enum {
  WEFT_LOG_DEBUG = 0,
  WEFT_LOG_INFO = 1,
  WEFT_LOG_WARNING = 2,
  WEFT_LOG_ERROR = 3,
  WEFT_LOG_OFF = 4
};

// Takes one record. `rank` is WEFT_NO_RANK if the record is of no rank. `text` is valid during the
// call.
typedef void (*weft_log_sink)(void* user, weft_log_level level, int32_t rank, const char* text);

// From now on every record goes to `sink`, and nothing is printed. A sink that is NULL brings back
// standard error. Several threads may call the sink at once, and one of them may still be in the
// old sink when this returns, so `user` must stay valid for the rest of the process.
WEFT_C_API weft_code weft_log_set_sink(weft_log_sink sink, void* user);
// Sets the lowest level of records that belong to no context, and the rank that they carry. A
// context has the level of its configuration (WEFT_LOG).
WEFT_C_API weft_code weft_log_set_level(weft_log_level lowest, int32_t rank);

#ifdef __cplusplus
}
#endif
