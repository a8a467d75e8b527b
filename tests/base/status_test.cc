// base: what a caller may rely on in Status, Result and Deadline.
#include <gtest/gtest.h>

#include <cerrno>

#include "verbs/base/base.h"

namespace weft {
namespace {

TEST(Status, OkSaysOkAndHasNoRank) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::ok);
  EXPECT_EQ(status.rank(), kNoRank);
  EXPECT_EQ(status.to_string(), "ok");
}

TEST(Status, ErrorKeepsCodeTextAndRankThroughCopies) {
  const Status first(Code::peer_died, "rank 3 ended", 3);
  const Status second = first;
  EXPECT_EQ(second.code(), Code::peer_died);
  EXPECT_EQ(second.rank(), 3);
  EXPECT_EQ(second.to_string(), "peer_died: rank 3 ended");
}

TEST(Status, SystemErrorsGetTheCodeThatACallerCanActOn) {
  EXPECT_EQ(system_error("open x", EACCES).code(), Code::no_permission);
  EXPECT_EQ(system_error("fallocate x", ENOSPC).code(), Code::exhausted);
  EXPECT_EQ(system_error("open x", ENOENT).code(), Code::system);
  EXPECT_EQ(system_error("open x", ENOENT).text(), "open x: No such file or directory");
}

Result<int> half(int x) {
  if (x % 2 != 0) return Status(Code::invalid_argument, "odd");
  return x / 2;
}

Result<int> quarter(int x) {
  WEFT_ASSIGN(const int once, half(x));
  WEFT_ASSIGN(const int twice, half(once));
  return twice;
}

TEST(Result, PassesValuesAndErrorsUp) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).status().code(), Code::invalid_argument);
}

TEST(Result, ValueOfAFailureIsABug) {
  EXPECT_DEATH((void)half(3).value(), "value\\(\\) of a failed Result");
}

TEST(Deadline, PassesWhenItsTimeHasCome) {
  EXPECT_TRUE(Deadline::at_ns(now_ns() - 1).passed());
  EXPECT_EQ(Deadline::at_ns(now_ns() - 1).left_ms(), 0);
  EXPECT_FALSE(Deadline::after_ms(60'000).passed());
  EXPECT_GT(Deadline::after_ms(60'000).left_ms(), 1'000);
}

}  // namespace
}  // namespace weft
