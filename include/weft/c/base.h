// The C API: codes, the last error, strings, the version.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifndef WEFT_C_API
#define WEFT_C_API __attribute__((visibility("default")))
#endif

// The version of these headers. weft_version() has that of the library.
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 3
#define WEFT_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

// The outcome of a call. The numbers are those of weft::Code and are frozen.
typedef int32_t weft_code;
enum {
  WEFT_OK = 0,
  WEFT_INVALID_ARGUMENT = 1,  // the caller asked for something that has no meaning
  WEFT_MISMATCH = 2,       // two ranks disagree: an edge, a size, a type, the order of operations
  WEFT_TIMED_OUT = 3,      // a deadline passed; the text says who was waited for
  WEFT_PEER_DIED = 4,      // a rank ended without closing its context
  WEFT_PEER_LEFT = 5,      // a rank closed its context while it was still needed
  WEFT_NO_PERMISSION = 6,  // the kernel or the job's credential refused
  WEFT_EXHAUSTED = 7,      // memory, shared memory, file descriptors
  WEFT_UNAVAILABLE = 8,    // the device, library or service is not here
  WEFT_CLOSED = 9,         // the object was closed or has failed before
  WEFT_SYSTEM = 10,        // an unexpected answer of the operating system, text included
  WEFT_CORRUPTED = 11      // data are not what a rank sent, or results differ that must be equal
};

// No rank, where a rank could stand.
enum { WEFT_NO_RANK = -1 };

// "ok", "invalid_argument", …; "unknown" for a number that is no code. Static memory.
WEFT_C_API const char* weft_code_name(weft_code code);

// The sentence of the last call of this thread that failed; "" if none has. A successful call
// leaves it as it is. Valid until the next failure on this thread; a text beyond 2,000 bytes is
// cut.
WEFT_C_API const char* weft_last_error(void);
// The code of that call, and the rank at fault or WEFT_NO_RANK.
WEFT_C_API weft_code weft_last_error_code(void);
WEFT_C_API int32_t weft_last_error_rank(void);

// Frees a string that a function of this API has made for the caller. NULL is legal.
WEFT_C_API void weft_string_free(char* text);

// "0.3.0": the version of the library that is linked. Static memory.
WEFT_C_API const char* weft_version(void);
// The same as a number: 10000 x major + 100 x minor + patch.
WEFT_C_API int32_t weft_version_number(void);

#ifdef __cplusplus
}
#endif
