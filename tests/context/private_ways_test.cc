// How private memory travels is measured: the quicker way stays, a change of the machine is noticed, trials
// get rare, and ranks that follow a neighbor do not measure.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "engine/execute/ways.h"

namespace weft {
namespace {

using Way = PrivateWays::Way;
using Use = PrivateWays::Use;

// The times of both ways on a machine.
struct Machine {
  std::int64_t staged_ns, read_ns;
};

// Runs operations there; returns how many of them went by `way`.
int run(Use& use, const Machine& machine, int operations, Way way) {
  int found = 0;
  for (int i = 0; i < operations; ++i) {
    found += use.way() == way ? 1 : 0;
    // Every fourth one waits for a rank that comes late.
    const std::int64_t late_ns = i % 4 == 3 ? 900'000 : 0;
    use.measure((use.way() == Way::staged ? machine.staged_ns : machine.read_ns) + late_ns);
  }
  return found;
}

constexpr Machine kFar{400'000, 200'000}, kNear{180'000, 200'000};

TEST(PrivateWays, TheQuickerWayStays) {
  PrivateWays ways;
  Use& use = ways.of(Collective::allreduce, 1 << 20, Way::staged);
  EXPECT_EQ(use.way(), Way::staged);
  run(use, kFar, 100, Way::read);
  EXPECT_EQ(use.way(), Way::read);
  EXPECT_GE(run(use, kFar, 10'000, Way::read), 9'900) << "trials of the slow way have to be rare";

  PrivateWays others;
  Use& other = others.of(Collective::allreduce, 1 << 20, Way::staged);
  EXPECT_GE(run(other, kNear, 10'000, Way::staged), 9'850);
}

TEST(PrivateWays, AWayThatIsHardlyQuickerChangesNothing) {
  PrivateWays ways;
  Use& use = ways.of(Collective::reduce, 1 << 20, Way::staged);
  run(use, {100'000, 97'000}, 1'000, Way::read);
  EXPECT_EQ(use.way(), Way::staged);
}

TEST(PrivateWays, AChangeOfTheMachineIsNoticedAtOnce) {
  PrivateWays ways;
  Use& use = ways.of(Collective::neighbor_allreduce, 1 << 20, Way::staged);
  run(use, kNear, 20'000, Way::staged);  // trials are rare by now
  EXPECT_GE(run(use, kFar, 100, Way::read), 80);
  EXPECT_EQ(use.way(), Way::read);
  // Now only the other way becomes quicker, which no operation of this way shows: the next trial does.
  run(use, {100'000, 200'000}, 2'100, Way::read);
  EXPECT_EQ(use.way(), Way::staged);
}

TEST(PrivateWays, TheFirstWayIsThatOfTheUse) {
  PrivateWays ways;
  Use& use = ways.of(Collective::allgather, 1 << 20, Way::read);
  EXPECT_EQ(use.way(), Way::read);
  run(use, kFar, 1'000, Way::read);
  EXPECT_EQ(use.way(), Way::read);
  run(use, {100'000, 200'000}, 2'100, Way::read);
  EXPECT_EQ(use.way(), Way::staged);
}

// A size that is new begins with what was found for the nearest one, and is tried later.
TEST(PrivateWays, AnotherSizeBeginsWithWhatWasFound) {
  PrivateWays ways;
  run(ways.of(Collective::allreduce, 1 << 20, Way::staged), kFar, 100, Way::read);
  run(ways.of(Collective::allreduce, 16 << 10, Way::staged), kNear, 300, Way::read);
  Use& larger = ways.of(Collective::allreduce, 64 << 20, Way::staged);
  EXPECT_EQ(run(larger, kFar, 30, Way::read), 30);
  Use& smaller = ways.of(Collective::allreduce, 32 << 10, Way::read);
  EXPECT_EQ(run(smaller, kNear, 30, Way::staged), 30);
  run(larger, {100'000, 200'000}, 100, Way::staged);
  EXPECT_EQ(larger.way(), Way::staged) << "it is not what the other size needs";
}

TEST(PrivateWays, UsesAreApart) {
  PrivateWays ways;
  run(ways.of(Collective::allreduce, 1 << 20, Way::staged), kFar, 100, Way::read);
  EXPECT_EQ(ways.of(Collective::allreduce, (2 << 20) - 1, Way::staged).way(), Way::read);
  EXPECT_EQ(ways.of(Collective::reduce, 1 << 20, Way::staged).way(), Way::staged);
  EXPECT_NE(ways.describe().find("read by the receivers (staged: 400.0 us, read: 200.0 us)"),
            std::string::npos)
      << ways.describe();
}

TEST(PrivateWays, WhoFollowsANeighborDoesNotMeasure) {
  PrivateWays ways;
  Use& use = ways.of(Collective::allreduce, 1 << 20, Way::staged);
  use.imitate(Way::read);
  EXPECT_EQ(use.way(), Way::read);
  EXPECT_NE(ways.describe().find("as the lowest in-neighbor does"), std::string::npos);
  use.imitate(Way::staged);
  EXPECT_EQ(use.way(), Way::staged);
}

}  // namespace
}  // namespace weft
