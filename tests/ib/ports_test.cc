// Two ports of each rank in one network, in which not all reach each other: the bond over them finds
// the pairs that do, and what is posted meanwhile is not lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/ib/pair.h"
#include "verbs/bond/bond.h"

namespace weft::ib {
namespace {

constexpr std::int64_t kSilenceMs = 10;
constexpr std::uint32_t kMessages = 20;

// Which port of rank 1 each of rank 0 reaches.
class PortsTest : public testing::TestWithParam<std::vector<int>> {
 protected:
  PortsTest() {
    fabric_.datagrams = [](const ScriptedDatagram& datagram) {
      return reach(datagram.sender, datagram.receiver) ? Fate::deliver : Fate::drop;
    };
    open(0, static_cast<int>(GetParam().size()));
    open(1, 2);
  }
  ~PortsTest() override {
    for (auto& end : ends_) end.reset();
    EXPECT_EQ(fabric_.leaks(), "");
    EXPECT_EQ(fabric_.violations(), "");
  }

  Endpoint& from(Rank rank) { return *must(end(rank).connect(1 - rank, end(1 - rank).address())); }
  template <typename Predicate>
  bool eventually(Predicate done) {
    return weft::eventually([&] {
      for (auto& end : ends_) end->progress();
      return done();
    });
  }
  testing::AssertionResult receive(Rank to, std::uint32_t n) {
    if (!eventually([&] { return from(to).front(1).header != nullptr; }))
      return testing::AssertionFailure() << "nothing came: " << from(to).describe();
    const testing::AssertionResult right = is_number(from(to).front(1), n, 9);
    from(to).release(1);
    return right;
  }
  Interface& end(Rank rank) { return *ends_.at(static_cast<std::size_t>(rank)); }

 private:
  static int host_of(Rank rank, int port) { return rank * 10 + port + 1; }
  [[nodiscard]] static bool is_joined(const ScriptedGid& a, const ScriptedGid& b) {
    for (std::size_t k = 0; k < GetParam().size(); ++k) {
      if (a == Fabric::gid(0, host_of(0, static_cast<int>(k))) &&
          b == Fabric::gid(0, host_of(1, GetParam()[k])))
        return true;
    }
    return false;
  }
  [[nodiscard]] static bool reach(const ScriptedGid& a, const ScriptedGid& b) {
    return a == b || is_joined(a, b) || is_joined(b, a);
  }
  void open(Rank rank, int ports) {
    const auto resolver = [this](Rank peer) -> Result<std::string> { return end(peer).address(); };
    std::vector<BondMember> members;
    for (int port = 0; port < ports; ++port) {
      const std::string device = "port" + std::to_string(host_of(rank, port));
      fabric_.add_device(device, host_of(rank, port));
      members.push_back({"ib", "10.0.0.0/24", [rank, device](AddressResolver resolve) {
                           IbOptions own;
                           own.device = device;
                           return IbInterface::open(Fabric::library(), rank, small_options(), own,
                                                    std::move(resolve));
                         }});
    }
    BondOptions bond;
    bond.rank = rank;
    bond.channels = small_options().channels;
    bond.slots = small_options().slots;
    bond.payload_bytes = small_options().payload_bytes;
    bond.silence_ms = kSilenceMs;
    ends_.at(static_cast<std::size_t>(rank)) =
        must(open_bond(bond, nullptr, std::move(members), resolver));
  }

  Fabric fabric_;
  std::array<std::unique_ptr<Interface>, 2> ends_;
};

TEST_P(PortsTest, WhatIsPostedArrives) {
  for (std::uint32_t n = 0; n < kMessages; ++n) {
    for (const Rank rank : {0, 1}) {
      ASSERT_TRUE(eventually([&] {
        return from(rank).post_notice(1, numbered_header(n), numbered_payload(n, 9)) ==
               Posted::posted;
      })) << from(rank).describe();
    }
    for (const Rank rank : {0, 1}) ASSERT_TRUE(receive(rank, n));
  }
}

// The rank that tries ports speaks to one that never connected to it.
TEST_P(PortsTest, AStrangerHearsIt) {
  ASSERT_EQ(from(0).post_notice(kControlChannel, numbered_header(7), numbered_payload(7, 9)),
            Posted::posted);
  Endpoint* asker = nullptr;
  ASSERT_TRUE(eventually([&] {
    asker = must(end(1).attention());
    return asker != nullptr;
  })) << from(0).describe();
  EXPECT_EQ(asker, &from(1));
  EXPECT_TRUE(is_number(asker->front(kControlChannel), 7, 9));
  asker->release(kControlChannel);
}

INSTANTIATE_TEST_SUITE_P(Cables, PortsTest,
                         testing::Values(std::vector{0, 1}, std::vector{1, 0}, std::vector{1}),
                         [](const auto& cables) {
                           std::string name;
                           for (const int port : cables.param) name += std::to_string(port);
                           return name;
                         });

}  // namespace
}  // namespace weft::ib
