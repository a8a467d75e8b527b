// quoted("a"): the text in double quotes, for JSON and for Prometheus labels. Both formats escape
// the quote, the backslash and the line feed in the same way. Other control characters can be
// written only in JSON, so they become spaces. Private to trace.
#pragma once

#include <string>
#include <string_view>

namespace weft {

[[nodiscard]] inline std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result += '"';
}

}  // namespace weft
