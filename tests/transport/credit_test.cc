// Conformance: back-pressure, and that every posted notice returns exactly one credit.
#include "tests/transport/group.h"

namespace weft {
namespace {

class Credit : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(Credit);

TEST_P(Credit, FullUntilThePeerReleases) {
  Group group(GetParam(), 2);
  Endpoint& sender = group.link(0, 1);
  Endpoint& receiver = group.link(1, 0);
  const std::uint32_t slots = small_options().slots;
  std::uint32_t next = 0;
  for (; next < slots; ++next) {
    ASSERT_EQ(sender.post_notice(1, numbered_header(next), numbered_payload(next, 9)),
              Posted::posted);
  }
  for (std::uint32_t n = 0; n < 50; ++n, ++next) {
    ASSERT_EQ(sender.post_notice(1, numbered_header(next), numbered_payload(next, 9)),
              Posted::full);
    ASSERT_TRUE(group.eventually([&] { return receiver.front(1).header != nullptr; }));
    ASSERT_TRUE(is_number(receiver.front(1), n, 9));
    receiver.release(1);
    ASSERT_TRUE(group.eventually([&] { return sender.released(1) == n + 1; }));
    ASSERT_EQ(sender.post_notice(1, numbered_header(next), numbered_payload(next, 9)),
              Posted::posted);
  }
}

TEST_P(Credit, FullWritesNothing) {
  Group group(GetParam(), 2);
  Endpoint& sender = group.link(0, 1);
  Endpoint& receiver = group.link(1, 0);
  const std::uint32_t slots = small_options().slots;
  const std::size_t bytes = small_options().payload_bytes;
  for (std::uint32_t n = 0; n < slots; ++n) {
    ASSERT_EQ(sender.post_notice(1, numbered_header(n), numbered_payload(n, bytes)),
              Posted::posted);
  }
  for (std::uint32_t n = 100; n < 110; ++n) {
    ASSERT_EQ(sender.post_notice(1, numbered_header(n), numbered_payload(n, bytes)), Posted::full);
  }
  EXPECT_EQ(sender.posted(1), slots);
  for (std::uint32_t n = 0; n < slots; ++n) {
    ASSERT_TRUE(group.eventually([&] { return receiver.front(1).header != nullptr; }));
    EXPECT_TRUE(is_number(receiver.front(1), n, bytes));
    receiver.release(1);
  }
  EXPECT_EQ(receiver.front(1).header, nullptr);
}

// More notices than payloads.
InterfaceOptions few_payloads() {
  InterfaceOptions options = small_options();
  options.slots = 16;
  options.payload_slots = 4;
  return options;
}

// Where memory is shared, payloads have slots of their own: when these are taken, what needs none still goes.
TEST_P(Credit, WithoutAPayloadThereIsMoreRoom) {
  Group group(GetParam(), 2, few_payloads());
  Endpoint& sender = group.link(0, 1);
  Endpoint& receiver = group.link(1, 0);
  if (!sender.properties().shares_memory) GTEST_SKIP() << "this transport does not share memory";
  for (std::uint32_t n = 0; n < 4; ++n)
    ASSERT_EQ(sender.post_notice(1, numbered_header(n), numbered_payload(n, 30)), Posted::posted);
  ASSERT_EQ(sender.post_notice(1, numbered_header(4), numbered_payload(4, 30)), Posted::full);
  for (std::uint32_t n = 4; n < 16; ++n)
    ASSERT_EQ(sender.post_notice(1, numbered_header(n), {}), Posted::posted);
  ASSERT_EQ(sender.post_notice(1, numbered_header(16), {}), Posted::full);
  EXPECT_EQ(receiver.arrived(1), 16U);
  for (std::uint32_t n = 0; n < 16; ++n) {
    ASSERT_TRUE(is_number(receiver.front(1), n, n < 4 ? 30 : 0));
    receiver.release(1);
    EXPECT_EQ(sender.post_notice(1, numbered_header(16 + n), numbered_payload(16 + n, 30)),
              n < 4 ? Posted::posted : Posted::full);
  }
  for (std::uint32_t n = 16; n < 20; ++n) {
    ASSERT_TRUE(is_number(receiver.front(1), n, 30));
    receiver.release(1);
  }
  EXPECT_EQ(sender.released(1), 20U);
}

// With and without payloads in every order, the sender always as far ahead as it may be.
TEST_P(Credit, PayloadsStayWithTheirNotices) {
  Group group(GetParam(), 2, few_payloads());
  Endpoint& sender = group.link(0, 1);
  Endpoint& receiver = group.link(1, 0);
  const auto bytes_of = [](std::uint32_t n) { return n * 2654435761U >> 29 < 3 ? 10 + n % 50 : 0; };
  std::uint32_t sent = 0;
  for (std::uint32_t n = 0; n < 2000; ++n) {
    while (sender.post_notice(1, numbered_header(sent), numbered_payload(sent, bytes_of(sent))) ==
           Posted::posted)
      ++sent;
    ASSERT_TRUE(group.eventually([&] { return receiver.front(1).header != nullptr; }));
    ASSERT_TRUE(is_number(receiver.front(1), n, bytes_of(n)));
    receiver.release(1);
  }
}

// Sends `count` notices and receives as many; both are checked, and all credits are waited for.
void exchange(Interface& own, Endpoint& peer, std::uint32_t channel, std::uint32_t count) {
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
  const std::vector<std::byte> payload = numbered_payload(0, 40);
  EXPECT_TRUE(eventually(own,
                         [&] {
                           while (sent < count && peer.post_notice(channel, numbered_header(sent),
                                                                   payload) == Posted::posted)
                             ++sent;
                           for (Notice notice = peer.front(channel); notice.header != nullptr;
                                notice = peer.front(channel)) {
                             if (notice.header->operation != received)
                               throw std::runtime_error("a notice is out of order");
                             ++received;
                             peer.release(channel);
                           }
                           return sent == count && received == count &&
                                  peer.released(channel) == count;
                         }))
      << "sent " << sent << ", received " << received << ", released " << peer.released(channel)
      << " of " << count;
  EXPECT_EQ(peer.posted(channel), count);
  EXPECT_EQ(peer.released(channel), count);
}

// As many notices each way as suit a transport that shares memory, or another.
void exchange_both_ways(const TransportFactory& transport, std::uint32_t slots,
                        std::uint32_t count_shared, std::uint32_t count) {
  InterfaceOptions options = small_options();
  options.slots = slots;
  Group group(transport, 2, options);
  const std::array<Endpoint*, 2> peers = {&group.link(0, 1), &group.link(1, 0)};
  group.run([&](Rank self) {
    Endpoint& peer = *peers[static_cast<std::size_t>(self)];
    exchange(group.at(self), peer, 1, peer.properties().shares_memory ? count_shared : count);
  });
}

TEST_P(Credit, ManyNoticesBothWaysReturnAsManyCredits) {
  exchange_both_ways(GetParam(), 64, 1'000'000, 10'000);
}

TEST_P(Credit, OneSlotIsEnough) {
  exchange_both_ways(GetParam(), 1, 20'000, 2'000);
}

TEST_P(Credit, FourRanksAllToAll) {
  constexpr Rank kRanks = 4;
  Group group(GetParam(), kRanks);
  for (Rank from = 0; from < kRanks; ++from) {
    for (Rank to = 0; to < kRanks; ++to) (void)group.link(from, to);
  }
  group.run([&](Rank self) {
    for (Rank step = 0; step < kRanks; ++step) {
      // In step s the pairs (a, b) with a xor b = s exchange, so all talk at the same time without
      // cycles.
      Endpoint& peer = group.link(self, self ^ step);
      exchange(group.at(self), peer, 1 + static_cast<std::uint32_t>(step % 2),
               peer.properties().shares_memory ? 2'000 : 500);
    }
  });
}

}  // namespace
}  // namespace weft
