// Runs the `weft` command as a user does.
#pragma once

#include <string>
#include <vector>

namespace weft {

struct Ran {
  int exit_status = -1;             // -1: ended by a signal
  std::vector<std::string> out;     // lines of standard output
  std::vector<std::string> errors;  // lines of standard error
};

// A line of the shell's; "{weft}" in it is the program's path.
[[nodiscard]] Ran run_line(const std::string& line);
// The same with the program at its beginning, before `arguments`.
[[nodiscard]] Ran run_weft(const std::string& arguments);

// Is `word` in one of the lines?
[[nodiscard]] bool mentions(const std::vector<std::string>& lines, const std::string& word);

}  // namespace weft
