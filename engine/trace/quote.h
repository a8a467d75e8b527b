// quoted("a"): the text in double quotes, for JSON and for Prometheus labels. Both escape the
// quote, the backslash and the line feed alike; other control characters, which only JSON could
// name, become spaces. Private to trace.
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
