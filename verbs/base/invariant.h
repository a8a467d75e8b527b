// invariant(condition, "text"): a property of our own code that must hold in every build. A breach
// is a bug in Weft, so the process says where and aborts. What peers, drivers, files or callers can
// cause is never an invariant: it is a Status.
#pragma once

#include <source_location>

namespace weft {

[[noreturn]] void invariant_failed(const char* text, const std::source_location& where);

inline void invariant(bool condition, const char* text,
                      const std::source_location& where = std::source_location::current()) {
  if (!condition) [[unlikely]]
    invariant_failed(text, where);
}

}  // namespace weft
