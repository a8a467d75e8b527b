// Jobs of processes under `weft run`, seen from outside.
#pragma once

#include <array>
#include <cstdio>
#include <map>
#include <string>

namespace weft::test {

// Runs a job of `ranks` processes, and returns each rank's lines. `program`: with its arguments, and with what starts
// it. `options`: of `weft run`; --deadline is the bound. `settings`: variables.
inline std::map<int, std::string> run_processes(const std::string& program, int ranks,
                                                const std::string& settings = "",
                                                const std::string& options = "") {
  const std::string command = settings + " " WEFT_BINARY " run -n " + std::to_string(ranks) +
                              " --deadline 60 " + options + " -- " + program + " 2>/dev/null";
  std::map<int, std::string> lines;
  FILE* output = popen(command.c_str(), "r");
  std::array<char, 4096> line{};
  while (fgets(line.data(), line.size(), output) != nullptr) {
    int rank = -1;
    if (std::sscanf(line.data(), "[%d] ", &rank) == 1) lines[rank] += line.data();
  }
  pclose(output);
  return lines;
}

}  // namespace weft::test
