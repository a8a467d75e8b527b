// What callers can get wrong: each error names the thing, and changes nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "scheduler/partial/partial.h"

namespace weft {
namespace {

GroupOptions of_three() {
  return {.size = 3, .law = group_law("random:3").value()};
}

std::string text_of(const Status& status) {
  EXPECT_EQ(status.code(), Code::invalid_argument);
  return std::string(status.text());
}

TEST(GroupBadInput, LawsAreNamed) {
  EXPECT_EQ(name(group_law("random").value()), "random:3");
  EXPECT_EQ(name(group_law("smart:5").value()), "smart:5");
  EXPECT_EQ(name(group_law("pairs").value()), "pairs");
  EXPECT_EQ(name(group_law("random:2").value()), "pairs");
  EXPECT_EQ(name(group_law("static").value()), "static");
  EXPECT_EQ(
      text_of(group_law("best").status()),
      "unknown law of groups 'best'; known are: random, random:SIZE, pairs, smart, smart:SIZE, "
      "static");
  EXPECT_EQ(text_of(group_law("random:three").status()),
            "law of groups 'random:three': 'three' is no group size");
  for (const char* text : {"random:1", "smart:0", "smart:-3", "random:1025"}) {
    const std::string size = std::string(text).substr(std::string(text).find(':') + 1);
    EXPECT_EQ(text_of(group_law(text).status()),
              fmt::format("group size {}: a group has 2 to 1024 workers", size));
  }
  for (const char* text : {"", "random:", "random:3x", "random:99999999999", "pairs:2", "static:4"})
    EXPECT_FALSE(group_law(text).ok()) << text;
}

TEST(GroupBadInput, OptionsAreChecked) {
  GroupOptions options = of_three();
  options.law.threshold = 1;
  EXPECT_EQ(text_of(GroupGenerator::open(options).status()),
            "threshold 1: a slow worker takes at least 2 iterations of others");
  options = of_three();
  options.machine = {0, 0};
  EXPECT_EQ(text_of(GroupGenerator::open(options).status()),
            "groups of 3 workers: machines are given for 2 ranks");
  options.machine = {0, 3, 0};
  EXPECT_EQ(text_of(GroupGenerator::open(options).status()),
            "groups of 3 workers: machine 3 of rank 1 is outside 0…2");
  options = of_three();
  options.size = 0;
  EXPECT_FALSE(GroupGenerator::open(options).ok());
  options = {.size = 3, .law = group_law("static").value()};
  EXPECT_EQ(text_of(GroupGenerator::open(options).status()),
            "static groups need no generator: each worker computes them alone");
}

TEST(GroupBadInput, EventsThatCannotBeChangeNothing) {
  GroupGenerator generator = GroupGenerator::open(of_three()).value();
  for (const Rank rank : {-1, 3}) {
    const Status status = generator.request(rank);
    EXPECT_EQ(text_of(status), fmt::format("request for a group: rank {} is outside 0…2", rank));
    EXPECT_EQ(status.rank(), rank);
    EXPECT_EQ(text_of(generator.leave(rank)), fmt::format("leave: rank {} is outside 0…2", rank));
    EXPECT_EQ(text_of(generator.done(rank, 1)),
              fmt::format("done with a group: rank {} is outside 0…2", rank));
  }
  EXPECT_EQ(text_of(generator.done(0, 1)),
            "rank 0 is done with group 1, which does not run for it");
  ASSERT_TRUE(generator.request(0).ok());
  EXPECT_EQ(text_of(generator.request(0)),
            "request for a group: rank 0 has asked before, and is not done with the group that "
            "answers it");
  ASSERT_TRUE(generator.request(1).ok());  // group 2 waits for group 1
  EXPECT_EQ(text_of(generator.done(1, 2)),
            "rank 1 is done with group 2, which does not run for it");
  ASSERT_TRUE(generator.done(1, 1).ok());
  EXPECT_EQ(text_of(generator.done(1, 1)),
            "rank 1 is done with group 1, which does not run for it");
  ASSERT_TRUE(generator.leave(2).ok());
  EXPECT_EQ(text_of(generator.request(2)), "request for a group: rank 2 has left");
  EXPECT_EQ(text_of(generator.leave(2)), "leave: rank 2 has left");
  ASSERT_TRUE(generator.done(2, 1).ok());  // it was in the group that ran
  EXPECT_EQ(text_of(generator.done(2, 1)), "done with a group: rank 2 has left");
  ASSERT_TRUE(generator.done(0, 1).ok());
  EXPECT_EQ(generator.assignments().size(), 2U);
}

TEST(GroupBadInput, ASmartGroupIsNotDoneBeforeItsWorkerHasAsked) {
  GroupGenerator generator =
      GroupGenerator::open({.size = 2, .law = group_law("smart").value()}).value();
  ASSERT_TRUE(generator.request(0).ok());
  EXPECT_EQ(text_of(generator.done(1, 1)),
            "rank 1 is done with group 1, for which it has not asked");
}

TEST(GroupBadInput, ReportsToASuccessorAreChecked) {
  const auto error_of = [](const std::vector<GroupReport>& reports) {
    return text_of(GroupGenerator::succeed(of_three(), reports).status());
  };
  const std::string of_one = "report of rank 1 to a new group generator: ";
  const auto in_group = [](Rank worker, std::uint64_t group, std::vector<Rank> members) {
    return GroupReport{.worker = worker, .group = group, .members = std::move(members)};
  };
  EXPECT_EQ(error_of({{.worker = 3}}),
            "report of rank 3 to a new group generator: the rank is outside 0…2");
  EXPECT_EQ(error_of({{.worker = 1}, {.worker = 1}}), of_one + "it has reported before");
  EXPECT_EQ(error_of({in_group(1, 4, {1, 5})}), of_one + "rank 5 of group 4 is outside 0…2");
  EXPECT_EQ(error_of({in_group(1, 4, {1, 1})}), of_one + "group 4 names rank 1 twice");
  EXPECT_EQ(error_of({in_group(1, 4, {1, 0})}), of_one + "group 4 names rank 1 out of order");
  EXPECT_EQ(error_of({in_group(1, 4, {0, 2})}), of_one + "group 4 is without it");
  EXPECT_EQ(error_of({in_group(0, 4, {0, 1}), in_group(1, 4, {0, 1, 2}), {.worker = 2}}),
            of_one + "group 4 has other members than another member says");
  EXPECT_EQ(error_of({in_group(0, 4, {0, 2}), in_group(1, 5, {1, 2}), {.worker = 2}}),
            of_one + "group 5 has rank 2, which group 4 has, too");
}

TEST(GroupBadInput, MixingNeedsAShape) {
  const GroupLaw law = group_law("static").value();
  for (const MachineShape shape : {MachineShape{0, 4}, MachineShape{4, -1}, MachineShape{64, 17}}) {
    EXPECT_EQ(text_of(group_mixing(law, shape).status()),
              fmt::format("groups on {} machines x {} ranks: rho is known for 1 to 1024 ranks",
                          shape.machines, shape.local_size));
  }
}

}  // namespace
}  // namespace weft
