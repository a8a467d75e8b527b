// Running a job from a test: a shell command, what it printed, and what ranks that are right print.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

namespace weft {

inline constexpr int kRanks = 4;
// Nothing of whoever started this test may tell its children who they are. LeakSanitizer dies of the
// plug-ins and threads that libpmix leaves.
inline constexpr const char* kClean =
    "env -u PMIX_NAMESPACE -u PMIX_RANK -u RANK -u WORLD_SIZE -u MASTER_ADDR -u MASTER_PORT "
    "-u LOCAL_RANK -u LOCAL_WORLD_SIZE WEFT_DEADLINE_MS=20000 "
    "ASAN_OPTIONS=detect_leaks=0 ";
inline constexpr const char* kKey = " WEFT_JOB_KEY=0123456789abcdef0123456789abcdef ";

struct Ran {
  int status;
  std::vector<std::string> lines;  // of both streams, sorted
};

inline Ran shell(const std::string& command) {
  Ran ran{-1, {}};
  FILE* output = ::popen((command + " 2>&1").c_str(), "r");
  if (output == nullptr) return ran;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), output) != nullptr)
    ran.lines.emplace_back(line.data());
  ran.status = ::pclose(output);
  std::ranges::sort(ran.lines);
  return ran;
}

// Each rank said once, and only, that all was right.
inline void expect_all_right(const Ran& ran) {
  std::vector<std::string> expected;
  for (int rank = 0; rank < kRanks; ++rank) {
    expected.push_back("rank " + std::to_string(rank) + " of " + std::to_string(kRanks) +
                       ": all right\n");
  }
  EXPECT_EQ(ran.lines, expected);
  EXPECT_EQ(ran.status, 0);
}

// A shell command that starts the ranks at once with `settings`, in which $r is the rank's number,
// and fails when one of them does.
inline std::string each_rank(const std::string& settings) {
  return "sh -c 'pids=; for r in 0 1 2 3; do " + std::string(kClean) + settings +
         " " RANK " & pids=\"$pids $!\"; done; for p in $pids; do wait $p || exit 1; done'";
}

}  // namespace weft
