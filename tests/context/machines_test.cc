// Who is on which machine, from what the ranks say.
#include "engine/context/machines.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

Machines of(std::vector<std::string> names, std::vector<std::pair<int, int>> rails = {}) {
  std::vector<MachineRecord> records;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    records.push_back(this_machine(names[rank]));
    if (rails.empty()) continue;
    records.back().ib.resize(static_cast<std::size_t>(rails[rank].first));
    records.back().ucx.resize(static_cast<std::size_t>(rails[rank].second));
  }
  return machines_of(records);
}

TEST(Machines, AreNumberedByTheirLowestRank) {
  const Machines machines = of({"b", "a", "b", "c", "a", "b"});
  EXPECT_EQ(machines.layout.machine, (std::vector<int>{0, 1, 0, 2, 1, 0}));
  EXPECT_EQ(machines.ranks_beside(5), (std::vector<Rank>{0, 2, 5}));
  EXPECT_EQ(machines.place_of(5), 2);
  EXPECT_EQ(machines.place_of(3), 0);
  EXPECT_EQ(machines.count(), 3);
  EXPECT_FALSE(machines.is_homogeneous());
  EXPECT_TRUE(of({"b", "a", "a", "b"}).is_homogeneous());
}

// A kind that one rank lacks connects nobody to it, so others do not plan with it either.
TEST(Machines, RailsAreThoseThatEveryRankHas) {
  EXPECT_EQ(of({"a", "b"}, {{2, 4}, {3, 4}}).layout.rails, 2);
  EXPECT_EQ(of({"a", "b"}, {{2, 4}, {0, 3}}).layout.rails, 3);
  EXPECT_EQ(of({"a", "b"}, {{0, 0}, {0, 3}}).layout.rails, 1);
}

TEST(Machines, AreDescribedInOneLine) {
  EXPECT_EQ(of({"b", "a", "b", "b"}, {{0, 2}, {0, 2}, {0, 2}, {0, 2}}).describe(),
            "2 machines, 2 rails: b (ranks 0, 2-3), a (rank 1)");
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("h" + std::to_string(i));
  EXPECT_NE(of(names).describe().find("h7 (rank 7) and 12 more"), std::string::npos)
      << of(names).describe();
}

TEST(Machines, ARecordIsReadAsItWasWritten) {
  const MachineRecord record{0xfedcba9876543210,
                             RailPolicy::near,
                             {{1002, 400'000}, {5000, -1}},
                             {},
                             "a name with blanks"};
  EXPECT_EQ(record.to_text(), "fedcba9876543210 near 1002:400000,5000:-1 - a name with blanks");
  EXPECT_EQ(*machine_record(record.to_text()), record);
  for (const char* text :
       {"", "1", "1 auto - -", "x auto - - host", "1 far - - host", "1 auto 1 - host",
        "1 auto 1: - host", "1 auto 1:2, - host", "1 auto - 1:99999999999 host", "1 auto :1 - host",
        "1 auto 1:2:3 - host", "1 auto  - host", "1 auto -1:1 - host", "1 auto 2000000:1 - host",
        "11112222333344445 auto - - host"}) {
    EXPECT_EQ(machine_record(text).status().code(), Code::mismatch) << text;
  }
}

// Four ranks of machine "a", then those of "b"; of the rails of each, how far they are.
Machines at_distances(RailPolicy policy, const std::vector<std::vector<int>>& far_on_a,
                      const std::vector<std::vector<int>>& far_on_b) {
  std::vector<MachineRecord> records;
  const auto add = [&](const char* name, const std::vector<std::vector<int>>& far) {
    for (const std::vector<int>& of_rank : far) {
      MachineRecord& record = records.emplace_back(this_machine(name));
      record.policy = policy;
      for (const int each : of_rank) record.ib.push_back({each, -1});
    }
  };
  add("a", far_on_a);
  add("b", far_on_b);
  return machines_of(records);
}

std::vector<int> between(const Machines& machines, Rank rank, Rank peer) {
  return machines.used_between(rank, peer, &Machines::RailsOfRank::ib);
}

using Numbers = std::vector<int>;

TEST(Machines, RanksUseWhatIsNearThem) {
  // On "b" both ranks are near rail 1, which is given to one of them.
  const Machines machines = at_distances(RailPolicy::automatic, {{5, 1}, {1, 5}}, {{4, 2}, {4, 1}});
  EXPECT_EQ(machines.layout.near, (Numbers{1, 0, 0, 1}));
  EXPECT_EQ(between(machines, 0, 3), Numbers{1});
  EXPECT_EQ(between(machines, 1, 2), Numbers{0});
  EXPECT_EQ(between(machines, 0, 2), Numbers()) << "none is used by both: all";
}

TEST(Machines, WhereNoneIsNearerAllAreUsed) {
  const Machines flat = at_distances(RailPolicy::automatic, {{3, 3}, {3, 3}}, {{3, 3}});
  EXPECT_EQ(flat.layout.near, Numbers());
  EXPECT_EQ(between(flat, 0, 2), Numbers());
  // A rank near rail 1, to one that uses all.
  const Machines mixed = at_distances(RailPolicy::automatic, {{3, 1}, {1, 3}}, {{3, 3}});
  EXPECT_EQ(mixed.layout.near, (Numbers{1, 0, kAnyRail}));
  EXPECT_EQ(between(mixed, 0, 2), Numbers{1});
  const Machines told = at_distances(RailPolicy::all, {{3, 1}, {1, 3}}, {{3, 1}});
  EXPECT_EQ(told.layout.near, Numbers());
  EXPECT_EQ(between(told, 0, 2), Numbers());
  // `near` shares them out all the same.
  const Machines near = at_distances(RailPolicy::near, {{3, 3}, {3, 3}}, {{3, 3}, {3, 3}});
  EXPECT_EQ(near.layout.near, (Numbers{0, 1, 0, 1}));
}

// A management port beside cards whose rates are told.
TEST(Machines, AnInterfaceOfUnknownRateHasNoShare) {
  std::vector<MachineRecord> records;
  for (int rank = 0; rank < 4; ++rank) {
    MachineRecord& record = records.emplace_back(this_machine("a"));
    const int far = rank % 2;
    record.ucx = {{1 - far, 100'000}, {far, 100'000}, {5, -1}};
  }
  const Machines machines = machines_of(records);
  for (std::size_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(machines.rails[rank].ucx.rails, Numbers{rank % 2 == 0 ? 1 : 0}) << rank;
}

// Rails cannot be told from each other by their numbers where ranks have not the same ones.
TEST(Machines, UnequalRailsAreNotPaired) {
  const Machines fewer = at_distances(RailPolicy::automatic, {{3, 1}, {1, 3}}, {{3, 3, 1}});
  EXPECT_EQ(fewer.layout.near, Numbers());
  EXPECT_EQ(between(fewer, 0, 2), Numbers{1});
  EXPECT_EQ(between(fewer, 2, 0), (Numbers{0, 1, 2})) << "the one rank there has them all";
  const Machines apart = at_distances(RailPolicy::automatic, {{3, 1}, {1}}, {{3, 3}});
  EXPECT_EQ(between(apart, 0, 2), Numbers()) << "ranks of one machine have opened different ones";
}

// Ranks of two containers may have one kernel; ranks of one machine have one name for it.
TEST(Machines, OneHostHasOneIdentity) {
  EXPECT_EQ(this_machine("").identity, this_machine("").identity);
  EXPECT_FALSE(this_machine("").name.empty());
  EXPECT_NE(this_machine("").identity, this_machine("x").identity);
}

}  // namespace
}  // namespace weft
