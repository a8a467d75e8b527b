// invariant(condition, "text"): a property of Weft's own code that must hold in every build. A
// violation is a bug in Weft, so the process says where and aborts. What peers, drivers, files or
// callers can cause is never an invariant: it is a Status.
#pragma once

#include <weft/export.h>

namespace WEFT_PUBLIC weft {

[[noreturn]] void invariant_failed(const char* text, const char* file, unsigned line);

// `file` and `line` are those of the call (std::source_location is not there for every clang).
inline void invariant(bool condition, const char* text, const char* file = __builtin_FILE(),
                      unsigned line = __builtin_LINE()) {
  if (!condition) [[unlikely]]
    invariant_failed(text, file, line);
}

}  // namespace weft
