// popen for standard output, a file for standard error.
#include "tests/tools/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

namespace weft {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string with_path(std::string arguments) {
  const std::string name = "{weft}";
  for (std::size_t at = 0; (at = arguments.find(name, at)) != std::string::npos;) {
    arguments.replace(at, name.size(), WEFT_PROGRAM);
  }
  return arguments;
}

}  // namespace

Ran run_weft(const std::string& arguments) {
  return run_line("{weft} " + arguments);
}

Ran run_line(const std::string& line) {
  const auto errors =
      std::filesystem::temp_directory_path() / ("weft-test-" + std::to_string(getpid()) + ".err");
  // The shell says what it has to say there, too.
  const std::string command = "{ " + with_path(line) + "\n} 2>" + errors.string();
  std::FILE* pipe = popen(command.c_str(), "r");
  Ran ran;
  if (pipe == nullptr) return ran;
  std::string text;
  std::array<char, 4096> bytes;
  while (const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), pipe)) {
    text.append(bytes.data(), got);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ran.exit_status = WEXITSTATUS(status);
  ran.out = lines_of(text);
  std::ostringstream said;
  said << std::ifstream(errors).rdbuf();
  ran.errors = lines_of(said.str());
  std::filesystem::remove(errors);
  return ran;
}

bool mentions(const std::vector<std::string>& lines, const std::string& word) {
  return std::ranges::any_of(
      lines, [&word](const std::string& line) { return line.find(word) != std::string::npos; });
}

}  // namespace weft
