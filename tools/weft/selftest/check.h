// Checks of `weft selftest`: each is one run of weft_selftest, the conformance suite as a program,
// in a process group of its own that does not outlive its bound.
#pragma once

#include <string>
#include <vector>

#include "tools/weft/selftest/targets.h"

namespace weft {

enum class Verdict : std::uint8_t { ok, failed, skipped };

struct CheckResult {
  std::string check;  // "Close.ThePeerIsTold"
  Verdict verdict = Verdict::ok;
  std::string why{};  // lines; empty: it is ok
  double seconds = 0;
};

// The names of all checks; `unavailable` where this build has none.
[[nodiscard]] Result<std::vector<std::string>> selftest_checks();

// Runs one; its end by signal or out of time is a failure, too.
[[nodiscard]] CheckResult run_check(const std::string& check, const SelftestTarget& target,
                                    double seconds);

}  // namespace weft
