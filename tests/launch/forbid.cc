// forbid CALL... -- PROGRAM ARGUMENTS: runs a program to which the kernel refuses some system calls.
// 77: the kernel has no filters of system calls, or a call of that name is not known here.
#include "tests/memory/forbid.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>

int main(int argc, char** argv) {
  constexpr int kCannot = 77;
  const std::map<std::string, long> known{{"memfd_create", SYS_memfd_create},
                                          {"pidfd_open", SYS_pidfd_open},
                                          {"sched_setaffinity", SYS_sched_setaffinity}};
  std::vector<long> calls;
  int at = 1;
  for (; at < argc && std::string(argv[at]) != "--"; ++at) {
    const auto call = known.find(argv[at]);
    if (call == known.end()) return kCannot;
    calls.push_back(call->second);
  }
  if (at + 1 >= argc || !weft::forbid(calls)) return kCannot;
  execvp(argv[at + 1], argv + at + 1);
  std::perror("forbid");
  return kCannot;
}
