// check: what a test in C needs. A check that fails says where and what, and ends the program with
// 1, so that no thread waits for one that has failed.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/c.h>

#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) {                                                     \
      (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                             \
    }                                                                       \
  } while (0)

// The call succeeds.
#define OK(call)                                                              \
  do {                                                                        \
    const weft_code code_ = (call);                                           \
    if (code_ != WEFT_OK) {                                                   \
      (void)fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, \
                    weft_code_name(code_), weft_last_error());                \
      _exit(1);                                                               \
    }                                                                         \
  } while (0)

// The call fails with this code, and the last error says so with this part of a text.
#define FAILS(call, expected, part)                                                               \
  do {                                                                                            \
    const weft_code code_ = (call);                                                               \
    if (code_ != (expected) || weft_last_error_code() != (expected) ||                            \
        strstr(weft_last_error(), (part)) == NULL) {                                              \
      (void)fprintf(stderr, "%s:%d: %s: %s: %s (expected %s: …%s…)\n", __FILE__, __LINE__, #call, \
                    weft_code_name(code_), weft_last_error(), weft_code_name(expected), (part));  \
      _exit(1);                                                                                   \
    }                                                                                             \
  } while (0)

#define INVALID(call, part) FAILS(call, WEFT_INVALID_ARGUMENT, part)

// Ends the program if the test takes longer.
static inline void bound_time(unsigned seconds) {
  (void)alarm(seconds);
}
