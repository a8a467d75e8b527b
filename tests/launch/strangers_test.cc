// Strangers at a PMIx server, whose protocol is PMIx's own: what `weft run` relies on it for.
#include "tests/base/sanitized.h"
#include "tests/launch/shell.h"

namespace weft {
namespace {

// Silent, garbage, and many one after the other, while the ranks of the job join beside them.
TEST(Pmix, StrangersKeepNobodyOut) {
  if (kIsSanitized) GTEST_SKIP() << "libpmix leaks";
  const Ran ran =
      shell(std::string(kClean) + WEFT " run --pmix --no-tag -n 4 -- python3 " CROWD " " RANK);
  if (ran.status != 0 && ran.lines.size() == 1 && ran.lines[0].find("libpmix") != std::string::npos)
    GTEST_SKIP() << ran.lines[0];
  expect_all_right(ran);
}

}  // namespace
}  // namespace weft
