// What programs have in common that are one rank of a job in which something goes wrong.
#pragma once

#include <cstdio>
#include <fstream>
#include <functional>
#include <string>

#include "engine/context/context.h"

namespace weft::test {

// The state of a process as /proc has it: 'T' is stopped.
inline char state_of(int process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string word;
  while (stat >> word && word.back() != ')') {
  }
  stat >> word;
  return word.empty() ? 'X' : word.front();
}

// Runs the rank's part of the job and prints how it ended. Returns the exit status: 0, unless there is no context.
inline int run_rank(const std::function<Status(Context&)>& part) {
  auto context = Context::from_environment();
  if (!context.ok()) {
    std::printf("no context: %s\n", context.status().to_string().c_str());
    return 1;
  }
  const Status status = part(**context);
  std::printf("ended %s\n", status.to_string().c_str());
  std::fflush(stdout);
  return 0;
}

}  // namespace weft::test
