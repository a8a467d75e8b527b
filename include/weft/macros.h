// Macros for functions that pass errors on. No other public header includes them, so a program has
// them only if it includes this file.
//
//   weft::Status step(weft::Context& context) {
//     WEFT_ASSIGN(weft::Handle handle, context.barrier_start());
//     WEFT_RETURN_IF_ERROR(handle.wait());
//     return {};
//   }
#pragma once

#include <weft/status.h>

#include <utility>

// Returns the Status of `expression` from the enclosing function unless it is ok.
#define WEFT_RETURN_IF_ERROR(expression)                                  \
  do {                                                                    \
    if (::weft::Status weft_status_ = (expression); !weft_status_.ok()) { \
      return weft_status_;                                                \
    }                                                                     \
  } while (false)

#define WEFT_CONCAT_(a, b) a##b
#define WEFT_CONCAT(a, b) WEFT_CONCAT_(a, b)
// WEFT_ASSIGN(auto x, f()): x is f()'s value, or the enclosing function returns f()'s Status.
#define WEFT_ASSIGN(declaration, expression)               \
  auto WEFT_CONCAT(weft_result_, __LINE__) = (expression); \
  if (!WEFT_CONCAT(weft_result_, __LINE__).ok()) {         \
    return WEFT_CONCAT(weft_result_, __LINE__).status();   \
  }                                                        \
  declaration = std::move(WEFT_CONCAT(weft_result_, __LINE__)).value()
