// Ranks that `weft run` started and that have other host names: a network carries what goes between
// them.
#include "tests/launch/shell.h"

namespace weft {
namespace {

// As in containers of their own, or where each plays a machine: what shared memory does not reach
// goes over a network, and the ranks that are elsewhere say so.
TEST(OtherHostNames, OfRanksThatWeftRunStartedLeadToANetwork) {
  if (shell("unshare --uts true").status != 0) GTEST_SKIP() << "not permitted: unshare --uts";
  Ran ran = shell(std::string(kClean) + WEFT
                  " run --no-tag -n 4 -- unshare --uts sh -c "
                  "'[ $WEFT_RANK -lt 3 ] || hostname elsewhere; exec " RANK "'");
  EXPECT_EQ(std::erase_if(ran.lines,
                          [](const std::string& line) {
                            return line.find("warning: this rank is on elsewhere") !=
                                   std::string::npos;
                          }),
            1U);
  expect_all_right(ran);
}

TEST(OtherHostNames, ThatOnlySomeRanksAreGivenLeadToANetwork) {
  expect_all_right(shell(std::string(kClean) + WEFT
                         " run --no-tag -n 4 -- sh -c "
                         "'[ $WEFT_RANK -lt 2 ] || export WEFT_HOST=other; exec " RANK "'"));
}

}  // namespace
}  // namespace weft
