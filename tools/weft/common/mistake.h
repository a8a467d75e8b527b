// mistake: what is wrong with a command line, in words, with the nearest name where a word is unknown.
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace weft {

// The name that few letters, left out, added, replaced or swapped, make of the word; empty if none is
// that near.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& names);

// "weft perf: option '--size' is unknown; did you mean '--sizes'?" and where to read more. For
// CLI::App::failure_message().
[[nodiscard]] std::string mistake_text(const CLI::App* app, const CLI::Error& error);

}  // namespace weft
