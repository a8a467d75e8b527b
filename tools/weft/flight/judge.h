// judge: who did not call what, from the dumps of the ranks of a job. Pure. Internal to the commands flight and
// top.
#pragma once

#include <string>
#include <vector>

#include "tools/weft/flight/dump.h"

namespace weft::dumps {

// What is to be said about a job.
struct Verdict {
  enum class Kind { absent, mismatch, waits, names, failure, busy } kind = Kind::waits;
  std::vector<Rank> culprits;  // ranks of the job that others wait for, or that disagree
  std::vector<Rank> waiting;
  std::string context;
  std::string text;    // one sentence for people
  double seconds = 0;  // how long they have waited
  std::string job{};
  bool is_mutual = false;  // of waits: the culprits wait for those who wait, too
};

// The causes first. Empty: nobody waits for anybody.
[[nodiscard]] std::vector<Verdict> judge(const std::vector<Part>& parts);

// "rank 3", "ranks 0-2 and 5".
[[nodiscard]] std::string ranks_text(std::vector<Rank> ranks);
// "allreduce #812 (1048576 x f32, 4 MiB)".
[[nodiscard]] std::string op_text(const Op& op);
[[nodiscard]] std::size_t bytes_of(const Op& op);

}  // namespace weft::dumps
