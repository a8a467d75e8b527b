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
    records.back().ib_rails = rails[rank].first;
    records.back().ucx_rails = rails[rank].second;
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
  const MachineRecord record{0xfedcba9876543210, 2, 3, "a name with blanks"};
  EXPECT_EQ(*machine_record(record.to_text()), record);
  for (const char* text : {"", "1", "1 2 3", "x 1 1 host", "1 -2 1 host", "1 2 99999999999 host",
                           "11112222333344445 1 1 host"}) {
    EXPECT_EQ(machine_record(text).status().code(), Code::mismatch) << text;
  }
}

// Ranks of two containers may have one kernel; ranks of one machine have one name for it.
TEST(Machines, OneHostHasOneIdentity) {
  EXPECT_EQ(this_machine("").identity, this_machine("").identity);
  EXPECT_FALSE(this_machine("").name.empty());
  EXPECT_NE(this_machine("").identity, this_machine("x").identity);
}

}  // namespace
}  // namespace weft
