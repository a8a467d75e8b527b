// Which members of two bonds make paths: one kind only, the same from both sides, rails by name.
#include <gtest/gtest.h>

#include "verbs/bond/address.h"

namespace weft::bond {
namespace {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

BondAddress with(std::vector<MemberAddress> networks) {
  return {{}, std::move(networks)};
}

TEST(Pairing, RailsOfEqualNamePair) {
  const BondAddress low = with({{"ib", "a", ""}, {"ib", "b", ""}});
  const BondAddress high = with({{"ib", "b", ""}, {"ib", "c", ""}, {"ib", "a", ""}});
  EXPECT_EQ(pair_members(low, high), (Pairs{{0, 2}, {1, 0}}));
}

TEST(Pairing, SeveralOnOneRailPairInTheirOrder) {
  const BondAddress two = with({{"ib", "a", ""}, {"ib", "a", ""}});
  const BondAddress three = with({{"ib", "a", ""}, {"ib", "a", ""}, {"ib", "a", ""}});
  EXPECT_EQ(pair_members(two, three), (Pairs{{0, 0}, {1, 1}}));
}

// Two fabrics with the default prefix, one rank without the port on the first.
TEST(Pairing, SeveralOnOneRailPairByTheirDevicesFirst) {
  const BondAddress two =
      with({{"ib", "fe80::/64", "", "mlx5_0"}, {"ib", "fe80::/64", "", "mlx5_1"}});
  const BondAddress one = with({{"ib", "fe80::/64", "", "mlx5_1"}});
  EXPECT_EQ(pair_members(two, one), (Pairs{{1, 0}}));
  EXPECT_EQ(pair_members(one, two), (Pairs{{0, 1}}));
  const BondAddress other =
      with({{"ib", "fe80::/64", "", "mlx5_1"}, {"ib", "fe80::/64", "", "bnxt_0"}});
  EXPECT_EQ(pair_members(two, other), (Pairs{{0, 1}, {1, 0}}));
}

TEST(Pairing, WhereNoNameAgreesByDeviceThenByNumber) {
  const BondAddress low =
      with({{"ib", "10.0.0.0/31", "", "mlx5_0"}, {"ib", "10.0.1.0/31", "", "mlx5_1"}});
  const BondAddress high =
      with({{"ib", "10.0.1.2/31", "", "mlx5_1"}, {"ib", "10.0.2.2/31", "", "mlx5_2"}});
  EXPECT_EQ(pair_members(low, high), (Pairs{{0, 1}, {1, 0}}));
}

TEST(Pairing, WhereNoNameAgreesByNumber) {
  const BondAddress low = with({{"ib", "a", ""}, {"ib", "b", ""}});
  const BondAddress high = with({{"ib", "", ""}});
  EXPECT_EQ(pair_members(low, high), (Pairs{{0, 0}}));
}

// Of one rail, or all where no names agree; never of two rails.
TEST(Pairing, OtherPairsAreThoseThatNamesAllow) {
  const BondAddress two = with({{"ib", "a", ""}, {"ib", "a", ""}});
  EXPECT_EQ(other_pairs(two, two), (Pairs{{0, 1}, {1, 0}}));
  const BondAddress one = with({{"ib", "a", ""}, {"ib", "b", ""}, {"ucx", "a", ""}});
  EXPECT_EQ(other_pairs(two, one), (Pairs{{1, 0}}));
  EXPECT_EQ(other_pairs(one, two), (Pairs{{0, 1}}));
  EXPECT_TRUE(other_pairs(one, one).empty());
  const BondAddress elsewhere = with({{"ib", "c", ""}, {"ib", "d", ""}});
  EXPECT_EQ(other_pairs(two, elsewhere), (Pairs{{0, 1}, {1, 0}}));
}

TEST(Pairing, TheFirstKindThatBothHaveIsTheOnlyOne) {
  const BondAddress both = with({{"ib", "a", ""}, {"ucx", "a", ""}, {"ucx", "b", ""}});
  EXPECT_EQ(pair_members(both, both), (Pairs{{0, 0}}));
  const BondAddress plain = with({{"ucx", "b", ""}, {"ucx", "a", ""}});
  EXPECT_EQ(pair_members(both, plain), (Pairs{{1, 1}, {2, 0}}));
  EXPECT_EQ(pair_members(plain, both), (Pairs{{0, 2}, {1, 1}}));
}

TEST(Pairing, KindsDoNotMix) {
  EXPECT_TRUE(pair_members(with({{"ib", "a", ""}}), with({{"ucx", "a", ""}})).empty());
  EXPECT_TRUE(pair_members(with({{"ib", "a", ""}}), with({})).empty());
}

TEST(Pairing, AnAddressComesBackAsItWas) {
  const BondAddress sent{
      "memory", {{"ib", "10.0.0.0/24", "x", "mlx5_0"}, {"ucx", "", std::string(900, 'y')}}};
  const Result<BondAddress> got = decode(encode(sent), 3);
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  ASSERT_EQ(got->networks.size(), 2U);
  EXPECT_EQ(got->memory, "memory");
  EXPECT_EQ(got->networks[0].kind, "ib");
  EXPECT_EQ(got->networks[0].rail, "10.0.0.0/24");
  EXPECT_EQ(got->networks[0].device, "mlx5_0");
  EXPECT_EQ(got->networks[1].address.size(), 900U);
  const std::string whole = encode(sent);
  for (std::size_t cut = 0; cut < whole.size(); ++cut) (void)decode(whole.substr(0, cut), 3).ok();
}

}  // namespace
}  // namespace weft::bond
