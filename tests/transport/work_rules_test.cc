// What all transports ask of one-sided work before they do it: bounds, and the order after a failure.
#include <gtest/gtest.h>

#include "verbs/transport/one_sided.h"

namespace weft {
namespace {

constexpr std::uint64_t kHeapBytes = 4096;

WorkVerdict verdict_of(std::uint64_t word, std::uint64_t bytes) {
  WorkRequest work{};
  work.kind = WorkKind::write;
  work.remote = {PieceForm::view, word, bytes};
  work.bytes = bytes;
  return check_bounds(work, kHeapBytes);
}

TEST(WorkRules, TheHeapReachesToItsEnd) {
  EXPECT_EQ(verdict_of(0, kHeapBytes), WorkVerdict::done);
  EXPECT_EQ(verdict_of(kHeapBytes - 8, 8), WorkVerdict::done);
  EXPECT_EQ(verdict_of(kHeapBytes - 8, 9), WorkVerdict::outside);
  EXPECT_EQ(verdict_of(kHeapBytes, 1), WorkVerdict::outside);
}

TEST(WorkRules, TheFirstFailureIsTheReasonWhyLaterWorkIsNotDone) {
  Completions completions;
  WorkOrder order(completions);
  const std::uint64_t first = order.begin();
  const std::uint64_t second = order.begin();
  order.fail(first, Status(Code::unavailable, "no carrier", 1));
  order.fail(second, Status(Code::invalid_argument, "outside", 2));
  EXPECT_TRUE(order.is_broken());
  EXPECT_NE(order.behind().text().find("no carrier"), std::string_view::npos);
  EXPECT_EQ(order.behind().rank(), 1);
}

}  // namespace
}  // namespace weft
