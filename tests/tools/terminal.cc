// A pseudoterminal: what is written to its other end is typed.
#include "tests/tools/terminal.h"

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <sstream>

namespace weft {

Ran interrupt_weft(const std::string& arguments, const std::string& word) {
  const std::string line = std::string("exec ") + WEFT_PROGRAM + " " + arguments;
  int terminal = -1;
  const winsize wide{50, 400, 0, 0};
  const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, &wide);
  Ran ran;
  if (pid < 0) return ran;
  if (pid == 0) {
    ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    ::_exit(127);
  }
  std::string text;
  bool is_typed = false;
  std::array<char, 4096> bytes;
  // The end of the stream is an error: nobody has the terminal open any more.
  for (ssize_t got = 0; (got = ::read(terminal, bytes.data(), bytes.size())) > 0;) {
    text.append(bytes.data(), static_cast<std::size_t>(got));
    if (is_typed || text.find(word) == std::string::npos) continue;
    is_typed = ::write(terminal, "\x03", 1) == 1;
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFEXITED(status)) ran.exit_status = WEXITSTATUS(status);
  std::istringstream stream(text);
  for (std::string each; std::getline(stream, each);) ran.out.push_back(each);
  return ran;
}

}  // namespace weft
