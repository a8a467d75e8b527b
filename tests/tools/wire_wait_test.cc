// How a side of `weft perf wire` waits.
#include <gtest/gtest.h>

#include "tests/sim/network.h"
#include "tools/weft/wire/wait.h"

namespace weft {
namespace {

// A simulated interface asks once while its owner falls asleep, and sleeps no time.
class WireWait : public testing::Test {
 protected:
  Status wait(const std::function<bool()>& done) {
    return turn_until(*own_, *peer_, patience_, 1, done);
  }

  WirePatience patience_;
  SimNetwork network_{{}};
  std::unique_ptr<Interface> own_ = network_.open(0, {}, "own");
  std::unique_ptr<Interface> other_ = network_.open(1, {}, "other");
  Endpoint* peer_ = own_->connect(1, other_->address()).value();
};

// Whenever that is: one of these askings is the sleeper's.
TEST_F(WireWait, WhatWasFoundOnceIsNotLookedForAgain) {
  for (int found = 1; found <= 8; ++found) {
    int asked = 0;
    const Status status = wait([&] { return ++asked == found; });
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(asked, found);
  }
}

TEST_F(WireWait, EndsWhenThePathHasFailed) {
  network_.cut(*own_, *other_, SimNetwork::Cut::told);
  EXPECT_EQ(wait([] { return false; }).code(), Code::unavailable);
}

TEST_F(WireWait, EndsAtTheDeadlineIfNothingMoves) {
  patience_.deadline_ms = 1;
  const Status status = wait([] { return false; });
  EXPECT_EQ(status.code(), Code::timed_out);
  EXPECT_EQ(status.text(), "between the two sides nothing moved for 1 ms (WEFT_DEADLINE_MS)");
}

}  // namespace
}  // namespace weft
