// The group generator, event by event.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>
#include <set>
#include <utility>

#include "scheduler/partial/partial.h"

namespace {
std::size_t allocations = 0;
}  // namespace

// Counts what is allocated in this program. The form that does not throw is replaced as well, because
// it shares operator delete with the other one.
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace weft {
namespace {

using Members = std::vector<Rank>;

GroupGenerator generator_of(const std::string& law, int size, int per_machine = 0,
                            std::uint64_t seed = 1) {
  GroupOptions options{.size = size, .law = group_law(law).value(), .seed = seed};
  for (Rank rank = 0; per_machine > 0 && rank < size; ++rank)
    options.machine.push_back(rank / per_machine);
  return GroupGenerator::open(options).value();
}

// By number, the members that the last event has assigned to it.
std::map<std::uint64_t, Members> assigned(const GroupGenerator& generator) {
  std::map<std::uint64_t, Members> groups;
  for (const GroupAssignment& each : generator.assignments()) {
    groups[each.group].assign(each.members.begin(), each.members.end());
    EXPECT_EQ(std::ranges::count(each.members, each.to), 1);
    EXPECT_TRUE(std::ranges::is_sorted(each.members));
  }
  return groups;
}

TEST(RandomGroups, HaveTheAskerAndOthersAndAnswerOnlyTheAsker) {
  GroupGenerator generator = generator_of("random:3", 9);
  ASSERT_TRUE(generator.request(4).ok());
  ASSERT_EQ(generator.assignments().size(), 3U);
  for (const GroupAssignment& each : generator.assignments()) {
    EXPECT_EQ(each.group, 1U);
    EXPECT_EQ(each.answers, each.to == 4);
    EXPECT_EQ(each.members.size(), 3U);
    EXPECT_EQ(std::ranges::count(each.members, 4), 1);
  }
}

TEST(RandomGroups, DrawEveryOtherWorkerAlike) {
  GroupGenerator generator = generator_of("random:3", 9);
  std::vector<int> drawn(9);
  constexpr int kRounds = 4000;
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_TRUE(generator.request(0).ok());
    const auto [number, members] = *assigned(generator).begin();
    for (const Rank rank : members) {
      ++drawn[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(generator.done(rank, number).ok());
    }
  }
  for (Rank rank = 1; rank < 9; ++rank)
    EXPECT_NEAR(drawn[static_cast<std::size_t>(rank)], kRounds / 4, kRounds / 40) << rank;
}

// The paper's Fig. 8: a group that overlaps another one waits for it, and runs when the locks of its
// members are free.
TEST(RandomGroups, ThatOverlapRunInTheirOrder) {
  GroupGenerator generator = generator_of("random:3", 4);  // any two groups overlap
  ASSERT_TRUE(generator.request(0).ok());
  const Members first = assigned(generator).at(1);
  ASSERT_TRUE(generator.request(3).ok());
  EXPECT_TRUE(generator.assignments().empty());
  EXPECT_EQ(generator.groups(), 2U);
  std::size_t told = 0;
  for (const Rank rank : first) {
    EXPECT_EQ(told, 0U);
    ASSERT_TRUE(generator.done(rank, 1).ok());
    told += generator.assignments().size();
  }
  EXPECT_EQ(told, 3U);
  EXPECT_EQ(generator.groups(), 1U);
}

// The paper's Fig. 11.
TEST(SmartGroups, OfOneDivisionTakeAllWorkersAndDoNotOverlap) {
  GroupGenerator generator = generator_of("smart:2", 4);
  ASSERT_TRUE(generator.request(0).ok());
  std::set<Rank> seen;
  for (const auto& [number, members] : assigned(generator)) {
    EXPECT_EQ(members.size(), 2U);
    seen.insert(members.begin(), members.end());
  }
  EXPECT_EQ(seen.size(), 4U);
  for (Rank rank = 1; rank < 4; ++rank) {
    ASSERT_TRUE(generator.request(rank).ok());
    EXPECT_TRUE(generator.assignments().empty()) << "its group is there already";
  }
}

TEST(SmartGroups, LeaveNoWorkerAloneThatCanJoinAnotherGroup) {
  for (int size = 2; size <= 20; ++size) {
    GroupGenerator generator = generator_of("smart:3", size);
    ASSERT_TRUE(generator.request(0).ok());
    for (const auto& [number, members] : assigned(generator)) {
      EXPECT_GE(members.size(), 2U) << size;
      EXPECT_LE(members.size(), 4U) << size;
    }
  }
}

// The paper's Fig. 12: first heads with heads and the others at home, then whole machines.
TEST(SmartGroups, GoAcrossMachinesAndThenInsideThem) {
  constexpr int kMachines = 4;
  constexpr int kLocals = 4;
  GroupGenerator generator = generator_of("smart:4", kMachines * kLocals, kLocals);
  for (Rank rank = 0; rank < 16; ++rank) {
    ASSERT_TRUE(generator.request(rank).ok());
    if (rank > 0) continue;
    int across = 0;
    for (const auto& [number, members] : assigned(generator)) {
      std::set<int> machines;
      for (const Rank member : members) machines.insert(member / kLocals);
      if (machines.size() == 1) continue;
      ++across;
      EXPECT_EQ(machines.size(), members.size()) << "one head of each machine";
      EXPECT_EQ(members.size(), 4U);
    }
    EXPECT_EQ(across, 1);
  }
  std::map<std::uint64_t, Members> second;
  for (std::uint64_t group = 1; group <= 5; ++group) {
    for (Rank rank = 0; rank < 16; ++rank) {
      if (!generator.done(rank, group).ok()) continue;
      second.merge(assigned(generator));
    }
  }
  ASSERT_EQ(second.size(), 4U);
  for (const auto& [number, members] : second) {
    const Rank first = members.front();
    EXPECT_EQ(first % kLocals, 0);
    EXPECT_EQ(members, (Members{first, first + 1, first + 2, first + 3}));
  }
}

TEST(SmartGroups, BringEveryTwoMachinesTogether) {
  constexpr int kMachines = 6;
  GroupGenerator generator = generator_of("smart:3", 2 * kMachines, 2);
  std::map<std::uint64_t, Members> running;
  std::set<std::pair<int, int>> met;
  for (int round = 0; round < 60; ++round) {
    for (Rank rank = 0; rank < 2 * kMachines; ++rank) {
      ASSERT_TRUE(generator.request(rank).ok());
      running.merge(assigned(generator));
    }
    for (const auto& [number, members] : std::exchange(running, {})) {
      for (const Rank rank : members) {
        ASSERT_TRUE(generator.done(rank, number).ok());
        running.merge(assigned(generator));
        for (const Rank other : members) met.emplace(rank / 2, other / 2);
      }
    }
  }
  EXPECT_EQ(met.size(), static_cast<std::size_t>(kMachines * kMachines));
}

// Reports of workers that are between two iterations.
std::vector<GroupReport> idle_after(const std::vector<std::uint64_t>& computed_us) {
  std::vector<GroupReport> reports;
  for (std::size_t rank = 0; rank < computed_us.size(); ++rank)
    reports.push_back(
        {.worker = static_cast<Rank>(rank), .requests = 10, .computed_us = computed_us[rank]});
  return reports;
}

// The paper's Fig. 13, by how long workers compute: rank 3 makes no division, and is in none before the
// one after which it will have computed.
TEST(SmartGroups, TakeASlowWorkerInWhenItWillHaveComputed) {
  GroupOptions options{.size = 4, .law = group_law("smart:4").value()};
  for (const int threshold : {2, 4}) {
    options.law.threshold = threshold;
    GroupGenerator generator =
        GroupGenerator::succeed(options, idle_after({100, 100, 100, 400})).value();
    ASSERT_TRUE(generator.request(3, 400).ok());  // three rounds of the others
    EXPECT_EQ(generator.assignments().empty(), threshold == 2);
    std::vector<Members> groups;
    std::uint64_t number = threshold == 2 ? 0 : 1;
    for (int round = 0; round < 4; ++round) {
      for (Rank rank = 0; rank < 3; ++rank) {
        ASSERT_TRUE(generator.request(rank, 100).ok());
        if (!generator.assignments().empty()) number = generator.assignments().front().group;
        if (rank == 0 && threshold == 2) groups.push_back(assigned(generator).at(number));
      }
      for (Rank rank = 0; rank < 4; ++rank) (void)generator.done(rank, number);
      if (threshold == 4) break;
    }
    if (threshold == 4) {
      EXPECT_EQ(generator.groups(), 0U) << "a group of all";
      continue;
    }
    const Members fast = {0, 1, 2}, all = {0, 1, 2, 3};
    EXPECT_EQ(groups, (std::vector{fast, fast, fast, all}));
  }
}

// Three of nine begin half an iteration later than the others.
TEST(SmartGroups, TakeLateWorkersIntoTheNextDivision) {
  const GroupOptions options{.size = 9, .law = group_law("smart:3").value()};
  GroupGenerator generator =
      GroupGenerator::succeed(options, idle_after(std::vector<std::uint64_t>(9, 100))).value();
  std::map<std::uint64_t, Members> groups;
  std::set<Rank> taken;  // by the last requests
  const auto ask = [&](const Members& ranks, std::uint64_t at_us) {
    taken.clear();
    for (const Rank rank : ranks) {
      ASSERT_TRUE(generator.request(rank, 100, at_us).ok());
      for (const auto& [number, members] : assigned(generator)) {
        groups[number] = members;
        taken.insert(members.begin(), members.end());
      }
    }
  };
  const auto end_groups = [&](Rank with, bool is_with) {
    for (auto group = groups.begin(); group != groups.end();) {
      const auto [number, members] = *group++;
      if ((std::ranges::count(members, with) == 1) != is_with) continue;
      for (const Rank rank : members) ASSERT_TRUE(generator.done(rank, number).ok());
      groups.erase(number);
    }
  };
  const auto group_of = [&](Rank rank) {
    return std::ranges::find_if(
               groups,
               [&](const auto& group) { return std::ranges::count(group.second, rank) == 1; })
        ->second;
  };
  ask({0}, 1000);
  ASSERT_EQ(groups.size(), 3U);
  const Members late = group_of(0);
  Members others;
  for (Rank rank = 0; rank < 9; ++rank)
    if (std::ranges::count(late, rank) == 0) others.push_back(rank);
  ask(others, 1000);
  ask({late[1], late[2]}, 1050);
  end_groups(0, false);
  ask(others, 1100);
  EXPECT_EQ(taken, std::set(others.begin(), others.end()));
  end_groups(0, true);
  ask(late, 1150);
  EXPECT_EQ(taken, std::set<Rank>{});
  end_groups(0, false);
  ask(others, 1200);
  EXPECT_EQ(taken.size(), 9U);
}

TEST(SmartGroups, DoNotDeferAWorkerForASinglePause) {
  GroupGenerator generator = generator_of("smart", 2);
  for (const std::uint64_t computed_us : {100, 900, 100, 900}) {
    ASSERT_TRUE(generator.request(0, 100).ok());
    const std::uint64_t number = generator.assignments().front().group;
    EXPECT_EQ(assigned(generator).at(number), (Members{0, 1}));
    ASSERT_TRUE(generator.request(1, computed_us).ok());
    for (const Rank rank : {0, 1}) ASSERT_TRUE(generator.done(rank, number).ok());
  }
}

TEST(SmartGroups, OfOneWorkerAreAnAnswerAtOnce) {
  GroupGenerator generator = generator_of("smart", 1);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    ASSERT_TRUE(generator.request(0).ok());
    EXPECT_EQ(assigned(generator).at(round), Members{0});
    ASSERT_TRUE(generator.done(0, round).ok());
  }
}

TEST(GroupGenerator, LetsWhoLeavesTakePartInWhatRunsAndInNothingLater) {
  GroupGenerator generator = generator_of("random:3", 3);
  ASSERT_TRUE(generator.request(0).ok());
  ASSERT_TRUE(generator.request(1).ok());  // waits
  ASSERT_TRUE(generator.done(1, 1).ok());
  ASSERT_TRUE(generator.leave(2).ok());
  EXPECT_TRUE(generator.assignments().empty());
  EXPECT_FALSE(generator.is_gone(2));
  EXPECT_EQ(generator.living(), 2U);
  ASSERT_TRUE(generator.done(0, 1).ok());
  EXPECT_EQ(assigned(generator).at(2), (Members{0, 1}));
  ASSERT_TRUE(generator.done(2, 1).ok());
  EXPECT_TRUE(generator.is_gone(2));
}

TEST(GroupGenerator, BeginsAGroupThatOnlyWaitedForWhoHasLeft) {
  GroupGenerator generator = generator_of("smart:2", 4, 2);  // {a head of each}, then machines
  ASSERT_TRUE(generator.request(0).ok());
  for (Rank rank = 1; rank < 4; ++rank) ASSERT_TRUE(generator.request(rank).ok());
  // All but rank 3 are done with their first group.
  for (std::uint64_t group = 1; group <= 3; ++group) {
    for (Rank rank = 0; rank < 3; ++rank) (void)generator.done(rank, group);
  }
  ASSERT_TRUE(generator.leave(3).ok());
  ASSERT_EQ(assigned(generator).size(), 1U);
  EXPECT_EQ(assigned(generator).begin()->second, Members{2});
}

// Rank 0 dies as the generator. Group 7 runs: rank 1 has heard of it, rank 2 has not, rank 0 was in it,
// rank 3 is done with it. Rank 4 had asked, and its group had not begun.
std::vector<GroupReport> after_a_death() {
  const Members seven = {0, 1, 2, 3};
  return {
      {.worker = 1,
       .requests = 5,
       .has_asked = true,
       .group = 7,
       .answers = true,
       .members = seven},
      {.worker = 2,
       .requests = 4,
       .has_asked = true,
       .group = 5,
       .is_done = true,
       .members = {2, 4}},
      {.worker = 3, .requests = 5, .group = 7, .is_done = true, .members = seven},
      {.worker = 4,
       .requests = 4,
       .has_asked = true,
       .group = 5,
       .is_done = true,
       .members = {2, 4}},
  };
}

TEST(GroupGenerator, SuccessorGoesOnFromWhatLivingWorkersReport) {
  for (const char* law : {"random:2", "smart:2"}) {
    const GroupOptions options{.size = 5, .law = group_law(law).value()};
    GroupGenerator generator = GroupGenerator::succeed(options, after_a_death()).value();
    EXPECT_EQ(generator.living(), 4U) << law;
    EXPECT_EQ(generator.requests(1), 5U) << law;
    const auto groups = assigned(generator);
    EXPECT_EQ(groups.at(7), (Members{1, 2})) << law;
    for (const Rank rank : {1, 2}) ASSERT_TRUE(generator.done(rank, 7).ok()) << law;
    EXPECT_GT(generator.groups(), 0U) << law << ": rank 4's request";
    for (const auto& [number, members] : assigned(generator)) {
      EXPECT_GT(number, 7U) << law;
      EXPECT_EQ(std::ranges::count(members, 0), 0) << law;
    }
  }
}

// Ranks 2 and 3 have a group for which they have not asked yet, so they are not idle.
TEST(GroupGenerator, SuccessorDividesOnlyIdleWorkers) {
  const GroupOptions options{.size = 5, .law = group_law("smart").value()};
  GroupGenerator generator =
      GroupGenerator::succeed(
          options,
          std::vector<GroupReport>{
              {.worker = 1, .requests = 3, .has_asked = true},
              {.worker = 2, .requests = 3, .group = 5, .answers = true, .members = {2, 3}},
              {.worker = 3, .requests = 3, .group = 5, .answers = true, .members = {2, 3}},
              {.worker = 4, .requests = 3, .has_asked = true}})
          .value();
  EXPECT_EQ(assigned(generator), (std::map<std::uint64_t, Members>{{5, {2, 3}}, {6, {1, 4}}}));
  for (const Rank rank : {2, 3}) {
    ASSERT_TRUE(generator.request(rank).ok());
    EXPECT_TRUE(generator.assignments().empty());
    ASSERT_TRUE(generator.done(rank, 5).ok());
  }
  EXPECT_EQ(generator.groups(), 1U);
}

TEST(GroupGenerator, TenThousandDifferentGroupsGrowNothing) {
  for (const char* law : {"random:3", "smart:3"}) {
    GroupGenerator generator = generator_of(law, 64);
    std::set<Members> different;
    std::map<Rank, std::uint64_t> runs;
    std::size_t inside = 0;  // allocations of the generator
    const auto keep = [&] {
      for (const GroupAssignment& each : generator.assignments()) {
        runs[each.to] = each.group;
        different.insert({each.members.begin(), each.members.end()});
      }
    };
    while (different.size() < 10'000) {
      for (Rank rank = 0; rank < 64; ++rank) {
        const std::size_t before = allocations;
        const bool has_asked = !generator.request(rank).ok();
        inside += has_asked ? 0 : allocations - before;
        if (!has_asked) keep();
      }
      for (const auto& [rank, number] : std::map(runs)) {
        const std::size_t before = allocations;
        const bool is_done = generator.done(rank, number).ok();
        inside += is_done ? allocations - before : 0;
        if (!is_done) continue;
        runs.erase(rank);
        keep();
      }
    }
    EXPECT_EQ(inside, 0U) << law;
    EXPECT_LE(generator.groups(), generator.most_groups()) << law;
  }
}

}  // namespace
}  // namespace weft
