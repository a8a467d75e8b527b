// Which local address goes with which remote one.
#include "verbs/device/gid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weft {
namespace {

GidAddress address(const std::string& text, GidKind kind = GidKind::roce_v2) {
  const Result<GidAddress> parsed = parse_gid(text, kind);
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  return parsed.ok() ? *parsed : GidAddress{};
}

RdmaGid gid_of(const GidAddress& address) {
  RdmaGid gid;
  gid.bytes = address.bytes;
  gid.kind = address.kind;
  gid.prefix_bits = address.prefix_bits;
  gid.usable = true;
  return gid;
}

RdmaGid gid(const std::string& text, GidKind kind = GidKind::roce_v2) {
  return gid_of(address(text, kind));
}

TEST(ParseGid, TakesAddressesAndGidsWithPrefixOrWithout) {
  EXPECT_EQ(address("10.0.0.1").prefix_bits, -1);
  EXPECT_EQ(address("10.0.0.1/24").prefix_bits, 24);
  EXPECT_EQ(address("10.0.0.1").bytes, address("0000:0000:0000:0000:0000:ffff:0a00:0001").bytes);
  EXPECT_EQ(address("fe80::1/64").prefix_bits, 64);
  for (const char* text : {"", "nonsense", "10.0.0", "10.0.0.1/", "10.0.0.1/33", "10.0.0.1/2x",
                           "fe80::1/129", "10.0.0.1/-1", "::", "10.0.0.1 "}) {
    EXPECT_EQ(parse_gid(text, GidKind::roce_v2).status().code(), Code::invalid_argument) << text;
  }
}

TEST(GidScore, KindsAndFamiliesDoNotMix) {
  EXPECT_LT(gid_score(gid("10.0.0.1/24", GidKind::roce_v1), address("10.0.0.2/24")), 0);
  EXPECT_LT(gid_score(gid("10.0.0.1/24"), address("fe80::2")), 0);
  EXPECT_LT(gid_score(gid("10.0.0.1/24"), GidAddress{.kind = GidKind::roce_v2}), 0);
  EXPECT_LT(gid_score(gid("fe80::1", GidKind::infiniband), address("fe80::2")), 0);
  EXPECT_LT(gid_score(gid("10.0.0.1/24"), address("10.0.0.2/24", static_cast<GidKind>(77))), 0);
}

TEST(GidScore, OrdersByVersionThenReachThenSubnetThenCommonBits) {
  const std::vector<int> scores{
      gid_score(gid("10.0.0.1/24"), address("10.0.0.2/24")),     // one subnet
      gid_score(gid("10.0.0.1/32"), address("10.0.0.2/32")),     // not known, 30 bits
      gid_score(gid("10.0.0.1/32"), address("10.1.0.2")),        // not known, 15 bits
      gid_score(gid("10.0.0.1/24"), address("10.0.1.2/24")),     // different
      gid_score(gid("fe80::1/64"), address("fe80::2/64")),       // link-local
      gid_score(gid("10.0.0.1/24"), address("169.254.1.2/16")),  // one is link-local
      gid_score(gid("10.0.0.1/24", GidKind::roce_v1), address("10.0.0.2/24", GidKind::roce_v1)),
  };
  EXPECT_TRUE(std::ranges::is_sorted(scores, std::greater{}));
  EXPECT_EQ(std::ranges::adjacent_find(scores), scores.end());
  EXPECT_GE(scores.back(), 0);
}

TEST(GidScore, TheShorterPrefixDecides) {
  const int one = gid_score(gid("10.0.0.1/24"), address("10.0.0.200/24"));
  EXPECT_EQ(gid_score(gid("10.0.0.1/24"), address("10.0.0.200/32")), one);
  EXPECT_EQ(gid_score(gid("10.0.0.1"), address("10.0.0.200/24")), one);
  EXPECT_LT(gid_score(gid("10.0.0.1/25"), address("10.0.0.200/25")), one);
}

TEST(GidScore, APeersImpossiblePrefixIsNotKnown) {
  GidAddress broken = address("10.0.0.2");
  const int expected = gid_score(gid("10.0.0.1"), broken);
  for (const int prefix : {33, 1 << 30, -2, -(1 << 30)}) {
    broken.prefix_bits = prefix;
    EXPECT_EQ(gid_score(gid("10.0.0.1"), broken), expected) << prefix;
  }
}

TEST(RankGidPairs, SaysWhy) {
  const std::vector<RdmaGid> local{gid("fe80::1/64"), gid("10.0.0.1/24", GidKind::roce_v1),
                                   gid("10.0.0.1/24")};
  const std::vector<GidAddress> remote{address("10.0.0.2/24"), address("fe80::2/64")};
  const std::vector<GidPair> pairs = rank_gid_pairs(local, remote);
  ASSERT_EQ(pairs.size(), 6U);
  EXPECT_EQ(pairs[0].local, 2);
  EXPECT_EQ(pairs[0].remote, 0);
  EXPECT_EQ(pairs[0].reason, "both RoCE v2, one subnet 10.0.0.0/24");
  EXPECT_EQ(pairs[1].reason, "both RoCE v2, link-local: only within one Ethernet segment");
  for (std::size_t at = 2; at < pairs.size(); ++at) EXPECT_EQ(pairs[at].score, -1);
  const auto reason = [](const RdmaGid& own, const GidAddress& other) {
    return rank_gid_pairs({&own, 1}, {&other, 1}).at(0).reason;
  };
  EXPECT_EQ(reason(gid("10.0.0.1/32"), address("10.0.0.2/32")),
            "both RoCE v2, subnet not known, 30 leading bits in common");
  EXPECT_EQ(reason(gid("10.0.0.1/24"), address("10.0.1.2/24")),
            "both RoCE v2, different subnets 10.0.0.0/24 and 10.0.1.0/24: needs a route");
  EXPECT_EQ(reason(gid("fe80::1", GidKind::infiniband), address("fe80::2", GidKind::infiniband)),
            "both InfiniBand, one subnet fe80::/64");
}

TEST(RankGidPairs, WhatIsNotUsableComesLastWithItsOwnReason) {
  std::vector<RdmaGid> local{gid("10.0.0.1/24"), gid("10.0.0.9/16")};
  local[0].usable = false;
  local[0].reason = "eth0 is down";
  const std::vector<GidPair> pairs =
      rank_gid_pairs(local, std::vector<GidAddress>{address("10.0.0.2/24")});
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].local, 1);
  EXPECT_EQ(pairs[1].score, -1);
  EXPECT_EQ(pairs[1].reason, "eth0 is down");
}

// One address in two kinds, the other way round at the peer: equal scores from equal addresses.
TEST(RankGidPairs, KindsBreakTiesBetweenTheSameAddresses) {
  const std::vector<GidAddress> a{address("2080::1", GidKind::infiniband), address("2080::2/64")};
  const std::vector<GidAddress> b{address("2080::1/64"), address("2080::2", GidKind::infiniband)};
  const GidPair here = rank_gid_pairs(std::vector<RdmaGid>{gid_of(a[0]), gid_of(a[1])}, b).front();
  const GidPair there = rank_gid_pairs(std::vector<RdmaGid>{gid_of(b[0]), gid_of(b[1])}, a).front();
  EXPECT_EQ(here.local, there.remote);
  EXPECT_EQ(here.remote, there.local);
}

// Addresses from few values, so that subnets, kinds and whole addresses meet often.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int end) { return static_cast<int>(engine_() % static_cast<unsigned>(end)); }

  GidAddress address() {
    GidAddress made;
    made.kind = static_cast<GidKind>(below(3));
    const int family = below(3);
    if (family == 0) {
      made.bytes[10] = made.bytes[11] = 0xff;
      made.bytes[12] = below(4) == 0 ? 169 : 10;
      made.bytes[13] = below(4) == 0 ? 254 : 0;
    } else {
      made.bytes[0] = family == 1 ? 0xfe : 0x20;
      made.bytes[1] = 0x80;
    }
    made.bytes[14] = static_cast<std::uint8_t>(below(3));
    made.bytes[15] = static_cast<std::uint8_t>(1 + below(4));
    made.prefix_bits = std::vector<int>{
        -1, 0, 8, 16, 24, 31, 32, 64, 120, 128, 200}[static_cast<std::size_t>(below(11))];
    return made;
  }

  std::vector<GidAddress> table() {
    std::vector<GidAddress> made(static_cast<std::size_t>(1 + below(6)));
    std::ranges::generate(made, [this] { return address(); });
    return made;
  }

 private:
  std::mt19937 engine_;
};

TEST(GidScore, IsTheSameFromBothEnds) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (int round = 0; round < 20'000; ++round) {
    const GidAddress a = random.address();
    const GidAddress b = random.address();
    ASSERT_EQ(gid_score(gid_of(a), b), gid_score(gid_of(b), a)) << "round " << round;
  }
}

// A queue pair works only if each side's local address is the other's remote one.
TEST(RankGidPairs, BothEndsChooseTheSamePair) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const auto gids = [](const std::vector<GidAddress>& table) {
    std::vector<RdmaGid> made;
    std::ranges::transform(table, std::back_inserter(made), gid_of);
    return made;
  };
  for (int round = 0; round < 3'000; ++round) {
    const std::vector<GidAddress> a = random.table();
    // Every fourth peer is on the same machine and has the same table.
    const std::vector<GidAddress> b = round % 4 == 0 ? a : random.table();
    const GidPair here = rank_gid_pairs(gids(a), b).front();
    const GidPair there = rank_gid_pairs(gids(b), a).front();
    ASSERT_EQ(here.score, there.score) << "round " << round;
    if (here.score < 0) continue;
    const auto at = [](const std::vector<GidAddress>& table, int position) {
      const GidAddress& entry = table[static_cast<std::size_t>(position)];
      return std::pair(entry.bytes, entry.kind);
    };
    ASSERT_EQ(at(a, here.local), at(a, there.remote)) << "round " << round;
    ASSERT_EQ(at(b, here.remote), at(b, there.local)) << "round " << round;
  }
}

}  // namespace
}  // namespace weft
