// Who is on which machine, from what the ranks say.
#include "engine/job/machines.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "verbs/ib/ib.h"
#include "verbs/ucx/ucx.h"

namespace weft {
namespace {

Machines of(std::vector<std::string> names, std::vector<std::pair<int, int>> rails = {}) {
  std::vector<MachineRecord> records;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    records.push_back(this_machine(names[rank]));
    if (rails.empty()) continue;
    for (int rail = 0; rail < rails[rank].first; ++rail)
      records.back().rails.push_back({"ib", "mlx5_" + std::to_string(rail), ""});
    for (int rail = 0; rail < rails[rank].second; ++rail)
      records.back().rails.push_back({"ucx", "eth" + std::to_string(rail), ""});
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

// Of an interface on a network of its own nobody hears anything.
TEST(Machines, RailsThatLeadNowhereAreKnown) {
  std::vector<MachineRecord> records{this_machine("a"), this_machine("b")};
  records[0].rails = {{"ucx", "eth0", "10.0.0.0/24"}, {"ucx", "eth1", "10.1.0.0/24"}};
  records[1].rails = {{"ucx", "eth0", "10.0.0.0/24"}, {"ucx", "eth1", "10.9.0.0/24"}};
  const std::vector<std::vector<int>> second{{1}, {1}};
  EXPECT_EQ(machines_of(records).lost, second);
  records[1].rails.pop_back();
  EXPECT_EQ(machines_of(records).lost, (std::vector<std::vector<int>>{{1}, {}}));
  records[1].rails[0].rail = "10.9.0.0/24";  // then all are tried
  EXPECT_EQ(machines_of(records).lost, (std::vector<std::vector<int>>{{}, {}}));
  EXPECT_EQ(of({"a", "a"}, {{2, 0}, {2, 0}}).lost, (std::vector<std::vector<int>>{{}, {}}));
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
  const MachineRecord record{
      0xfedcba9876543210,
      RailPolicy::near,
      {{"ib", "mlx5_0:2", "fd00:1::/64", 1002, 400'000}, {"ucx", "a,b", "", 5000, -1}},
      "a name with\nblanks",
      3,
      true,
      64,
      0xabc};
  EXPECT_EQ(
      record.to_text(),
      "fedcba9876543210 near 3 1 64 abc 2\nib 1002 400000 mlx5_0:2 fd00:1::/64\nucx 5000 -1 a,b \n"
      "a name with\nblanks");
  EXPECT_EQ(*machine_record(record.to_text()), record);
  for (const char* text : {"",
                           "1",
                           "1 auto 1 0 1 0",
                           "x auto 1 0 1 0 0\nhost",
                           "1 far 1 0 1 0 0\nhost",
                           "1 auto 1 0 1 0 -1\nhost",
                           "1 auto 1 0 1 0 65\nhost",
                           "1 auto 0 0 1 0 0\nhost",
                           "1 auto 65 0 1 0 0\nhost",
                           "1 auto 1 0 1 0\nhost",
                           "1 auto 1 0 1 0 1\nhost",
                           "1 auto 1 0 1 0 1\nib 1 2 eth0\nhost",
                           "1 auto 1 0 1 0 1\nib 1 2  rail\nhost",
                           "1 auto 1 0 1 0 1\n 1 2 eth0 rail\nhost",
                           "1 auto 1 0 1 0 1\nib 1 99999999999 eth0 rail\nhost",
                           "1 auto 1 0 1 0 1\nib -1 1 eth0 rail\nhost",
                           "1 auto 1 0 1 0 1\nib 2000000 1 eth0 rail\nhost",
                           "1 auto 1 2 1 0 0\nhost",
                           "1 auto 1 x 1 0 0\nhost",
                           "1 auto 1 0 0 0 0\nhost",
                           "1 auto 1 0 70000 0 0\nhost",
                           "1 auto 1 0 1 x 0\nhost",
                           "11112222333344445 auto 1 0 1 0 0\nhost"}) {
    EXPECT_EQ(machine_record(text).status().code(), Code::mismatch) << text;
  }
}

// A profile of `weft tune` fits what is alike in this, whatever the names are.
TEST(Machines, ATopologyIsRanksMachinesCoresAndRails) {
  const auto hash_of = [](std::vector<std::string> names, int mbit, int cores) {
    std::vector<MachineRecord> records;
    for (const std::string& name : names) {
      records.push_back(this_machine(name));
      records.back().rails = {{"ucx", "eth0", "10.0.0.0/24", 0, mbit}};
      records.back().cores = cores;
    }
    return topology_of(records).hash;
  };
  const std::string one = hash_of({"a", "a", "b"}, 1000, 2);
  EXPECT_EQ(one.size(), 16U);
  EXPECT_EQ(one, hash_of({"x", "x", "y"}, 1000, 2));
  EXPECT_NE(one, hash_of({"a", "b", "b"}, 1000, 2));
  EXPECT_NE(one, hash_of({"a", "a", "b", "b"}, 1000, 2));
  EXPECT_NE(one, hash_of({"a", "a", "b"}, 100, 2));
  EXPECT_NE(one, hash_of({"a", "a", "b"}, 1000, 4));
}

TEST(Machines, RanksWithDifferentProfilesAreNamed) {
  std::vector<MachineRecord> records{this_machine("a"), this_machine("a"), this_machine("a")};
  EXPECT_TRUE(check_policies(records).ok());
  records[2].tuning = 5;
  EXPECT_NE(check_policies(records).text().find("rank 2 has a profile"), std::string::npos);
  records[0].tuning = records[1].tuning = 4;
  EXPECT_NE(check_policies(records).text().find("rank 2 has another profile"), std::string::npos);
  records[2].tuning = 0;
  EXPECT_NE(check_policies(records).text().find("and rank 2 none"), std::string::npos);
}

MachineRecord rank_of(const std::string& machine, std::vector<RailRecord> rails,
                      RailPolicy policy = RailPolicy::automatic) {
  MachineRecord record = this_machine(machine);
  record.policy = policy;
  record.rails = std::move(rails);
  return record;
}

// Two or more ranks of machine "a", then those of "b"; of the rails of each, how far they are.
Machines at_distances(RailPolicy policy, const std::vector<std::vector<int>>& far_on_a,
                      const std::vector<std::vector<int>>& far_on_b) {
  std::vector<MachineRecord> records;
  const auto add = [&](const char* name, const std::vector<std::vector<int>>& far) {
    for (const std::vector<int>& of_rank : far) {
      std::vector<RailRecord> rails;
      for (std::size_t rail = 0; rail < of_rank.size(); ++rail) {
        const std::string number = std::to_string(rail);
        rails.push_back({"ib", "mlx5_" + number, "10.0." + number + ".0/24", of_rank[rail], -1});
      }
      records.push_back(rank_of(name, std::move(rails), policy));
    }
  };
  add("a", far_on_a);
  add("b", far_on_b);
  return machines_of(records);
}

using Numbers = std::vector<int>;
using Table = std::vector<Numbers>;

TEST(Machines, RanksUseWhatIsNearThem) {
  // On "b" both ranks are near rail 1, which is given to one of them.
  const Machines machines = at_distances(RailPolicy::automatic, {{5, 1}, {1, 5}}, {{4, 2}, {4, 1}});
  EXPECT_EQ(machines.used, (Table{{1}, {0}, {0}, {1}}));
  EXPECT_EQ(machines.layout.near, (Numbers{1, 0, 0, 1}));
}

TEST(Machines, WhereNoneIsNearerAllAreUsed) {
  const Machines flat = at_distances(RailPolicy::automatic, {{3, 3}, {3, 3}}, {{3, 3}});
  EXPECT_EQ(flat.layout.near, Numbers());
  EXPECT_EQ(flat.used, (Table{{0, 1}, {0, 1}, {0, 1}}));
  const Machines mixed = at_distances(RailPolicy::automatic, {{3, 1}, {1, 3}}, {{3, 3}});
  EXPECT_EQ(mixed.layout.near, (Numbers{1, 0, kAnyRail}));
  EXPECT_EQ(mixed.used, (Table{{1}, {0}, {0, 1}}));
  const Machines told = at_distances(RailPolicy::all, {{3, 1}, {1, 3}}, {{3, 1}});
  EXPECT_EQ(told.layout.near, Numbers());
  EXPECT_EQ(told.used, (Table{{0, 1}, {0, 1}, {0, 1}}));
  // `near` shares them out all the same.
  const Machines near = at_distances(RailPolicy::near, {{3, 3}, {3, 3}}, {{3, 3}, {3, 3}});
  EXPECT_EQ(near.layout.near, (Numbers{0, 1, 0, 1}));
}

// A rank for which all are equally far takes what its neighbor, who is near one, leaves.
TEST(Machines, ARankThatIsNearNoneSharesAllTheSame) {
  EXPECT_EQ(at_distances(RailPolicy::automatic, {{3, 3}, {3, 1}}, {{3, 3}}).used,
            (Table{{0}, {1}, {0, 1}}));
}

// A management port beside cards whose rates are told.
TEST(Machines, AnInterfaceOfUnknownRateHasNoShare) {
  std::vector<MachineRecord> records;
  for (int rank = 0; rank < 4; ++rank) {
    const int far = rank % 2;
    records.push_back(rank_of("a", {{"ucx", "eth0", "x", 1 - far, 100'000},
                                    {"ucx", "eth1", "y", far, 100'000},
                                    {"ucx", "eth2", "z", 5, -1}}));
  }
  EXPECT_EQ(machines_of(records).used, (Table{{1}, {0}, {1}, {0}}));
}

// Cards may be found in another order than that of the networks that they are on, and in another
// one on each machine; and RDMA stands beside the network interfaces of the same cards.
TEST(Machines, RailsAreKnownByTheirNames) {
  const std::vector<MachineRecord> records = {
      rank_of("a", {{"ib", "mlx5_0", "10.0.2.0/24", 1},
                    {"ib", "mlx5_1", "10.0.1.0/24", 9},
                    {"ucx", "eth0", "10.0.2.0/24", 1}}),
      rank_of("a", {{"ib", "mlx5_0", "10.0.2.0/24", 9},
                    {"ib", "mlx5_1", "10.0.1.0/24", 1},
                    {"ucx", "eth0", "10.0.2.0/24", 9}}),
      rank_of("b", {{"ib", "mlx5_7", "10.0.1.0/24", 1}, {"ib", "mlx5_8", "10.0.2.0/24", 9}}),
      rank_of("b", {{"ib", "mlx5_7", "10.0.1.0/24", 9}, {"ib", "mlx5_8", "10.0.2.0/24", 1}})};
  const Machines machines = machines_of(records);
  EXPECT_EQ(machines.used, (Table{{0, 2}, {1, 2}, {0}, {1}}));
  EXPECT_EQ(machines.layout.near, (Numbers{1, 0, 0, 1})) << "in the order of the names";
}

// What one has and another has not cannot be counted alike; each machine shares its own out.
TEST(Machines, RailsOfOtherNamesHaveNoCommonNumbers) {
  const Machines more = at_distances(RailPolicy::automatic, {{3, 1}, {1, 3}}, {{3, 3, 1}});
  EXPECT_EQ(more.layout.near, (Numbers{1, 0, kAnyRail})) << "those that both machines have";
  EXPECT_EQ(more.used, (Table{{1}, {0}, {0, 1}})) << "the third is on b alone";
  const std::vector<MachineRecord> elsewhere = {
      rank_of("a", {{"ib", "x", "1", 1}, {"ib", "y", "2", 9}}),
      rank_of("a", {{"ib", "x", "1", 9}, {"ib", "y", "2", 1}}),
      rank_of("b", {{"ib", "x", "1", 1}, {"ib", "y", "3", 9}})};
  EXPECT_EQ(machines_of(elsewhere).layout.near, Numbers());
  EXPECT_EQ(machines_of(elsewhere).layout.rails, 1);
  const std::vector<MachineRecord> by_twos = {
      rank_of("a", {{"ib", "x", "1", 1}, {"ib", "y", "2", 9}}),
      rank_of("b", {{"ib", "x", "2", 1}, {"ib", "y", "3", 9}}),
      rank_of("c", {{"ib", "x", "3", 1}, {"ib", "y", "1", 9}})};
  EXPECT_EQ(machines_of(by_twos).layout.near, Numbers());
  EXPECT_EQ(machines_of(by_twos).layout.rails, 2);
}

// A bridge of containers, a cable to a disk: whoever had that as its share would have nothing to
// send over, and its neighbors the more.
TEST(Machines, ANetworkOfOneMachineIsNotSharedOut) {
  const auto rank = [](const char* machine, int near) {
    return rank_of(machine,
                   {{"ucx", "docker0", std::string("of ") + machine, near == 0 ? 1 : 9, 100'000},
                    {"ucx", "eth0", "10.0.0.0/24", near == 1 ? 1 : 9, 100'000},
                    {"ucx", "eth1", "10.0.1.0/24", near == 2 ? 1 : 9, 100'000}},
                   RailPolicy::near);
  };
  const std::vector<MachineRecord> records = {rank("a", 0), rank("a", 1), rank("a", 2),
                                              rank("b", 2), rank("b", 1)};
  const Machines machines = machines_of(records);
  EXPECT_EQ(machines.layout.rails, 2);
  for (const Numbers& used : machines.used) EXPECT_EQ(std::ranges::count(used, 0), 0);
  EXPECT_EQ(machines.used[1], Numbers{1});
  EXPECT_EQ(machines.used[2], Numbers{2});
  EXPECT_EQ(machines.used[3], Numbers{2});
  ASSERT_EQ(machines.layout.near.size(), records.size());
  EXPECT_EQ(machines.layout.near[2], 1) << "counted without the first";
  std::vector<MachineRecord> all = records;
  for (MachineRecord& record : all) record.policy = RailPolicy::all;
  EXPECT_EQ(machines_of(all).used, Table(5, {1, 2}));
}

// Networks without a name in common are paired by their places, so each may reach somebody; and of
// one machine alone it is shown what its ranks would use.
TEST(Machines, WhereNoNetworkIsKnownElsewhereAllAreSharedOut) {
  const std::vector<MachineRecord> records = {
      rank_of("a", {{"ib", "x", "1", 1}, {"ib", "y", "2", 9}}),
      rank_of("a", {{"ib", "x", "1", 9}, {"ib", "y", "2", 1}}),
      rank_of("b", {{"ib", "x", "3", 1}, {"ib", "y", "4", 9}})};
  EXPECT_EQ(machines_of(records).used, (Table{{0}, {1}, {0, 1}}));
  EXPECT_EQ(machines_of(records).layout.rails, 2);
  EXPECT_EQ(machines_of(std::span(records).first(2)).used, (Table{{0}, {1}}));
}

// Somebody has given each rank its interfaces by hand: WEFT_INTERFACES.
TEST(Machines, RanksThatOpenedOtherInterfacesDoNotShareThem) {
  const std::vector<MachineRecord> records = {
      rank_of("a", {{"ib", "mlx5_0", "1", 9}, {"ib", "mlx5_1", "2", 1}}),
      rank_of("a", {{"ib", "mlx5_2", "1", 9}, {"ib", "mlx5_3", "2", 1}})};
  EXPECT_EQ(machines_of(records).used, (Table{{0, 1}, {0, 1}}));
}

TEST(Machines, OnePolicyHoldsForTheJob) {
  const std::vector<MachineRecord> records = {rank_of("a", {}, RailPolicy::near),
                                              rank_of("a", {}, RailPolicy::near),
                                              rank_of("b", {}, RailPolicy::all)};
  const Status status = check_policies(records);
  EXPECT_EQ(status.code(), Code::mismatch);
  EXPECT_EQ(status.text(),
            "rank 2 has WEFT_RAILS=all and rank 0 near: all ranks of a job need the same");
  EXPECT_TRUE(check_policies(std::span(records).first(2)).ok());
}

// What the map counts ways by.
TEST(Pieces, AreThoseOfTheTransports) {
  EXPECT_EQ(static_cast<double>(IbOptions{}.piece_bytes), kRdmaPieceBytes);
  EXPECT_EQ(static_cast<double>(UcxOptions{}.piece_bytes), kOtherPieceBytes);
}

// Ranks of two containers may have one kernel; ranks of one machine have one name for it.
TEST(Machines, OneHostHasOneIdentity) {
  EXPECT_EQ(this_machine("").identity, this_machine("").identity);
  EXPECT_FALSE(this_machine("").name.empty());
  EXPECT_NE(this_machine("").identity, this_machine("x").identity);
}

}  // namespace
}  // namespace weft
