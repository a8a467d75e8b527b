// Conformance: back-pressure, and that every posted notice returns exactly one credit.
#include <thread>

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
    ASSERT_TRUE(eventually([&] { return receiver.front(1).header != nullptr; }));
    ASSERT_TRUE(is_number(receiver.front(1), n, 9));
    receiver.release(1);
    ASSERT_TRUE(eventually([&] { return sender.released(1) == n + 1; }));
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
    ASSERT_TRUE(eventually([&] { return receiver.front(1).header != nullptr; }));
    EXPECT_TRUE(is_number(receiver.front(1), n, bytes));
    receiver.release(1);
  }
  EXPECT_EQ(receiver.front(1).header, nullptr);
}

// Sends `count` notices and receives as many; both are checked, and all credits are waited for.
void exchange(Endpoint& peer, std::uint32_t channel, std::uint32_t count) {
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
  const std::vector<std::byte> payload = numbered_payload(0, 40);
  EXPECT_TRUE(eventually([&] {
    while (sent < count &&
           peer.post_notice(channel, numbered_header(sent), payload) == Posted::posted)
      ++sent;
    for (Notice notice = peer.front(channel); notice.header != nullptr;
         notice = peer.front(channel)) {
      if (notice.header->operation != received)
        throw std::runtime_error("a notice is out of order");
      ++received;
      peer.release(channel);
    }
    return sent == count && received == count && peer.released(channel) == count;
  })) << "sent "
      << sent << ", received " << received << ", released " << peer.released(channel) << " of "
      << count;
  EXPECT_EQ(peer.posted(channel), count);
  EXPECT_EQ(peer.released(channel), count);
}

void exchange_both_ways(const TransportFactory& transport, std::uint32_t slots,
                        std::uint32_t count) {
  InterfaceOptions options = small_options();
  options.slots = slots;
  Group group(transport, 2, options);
  Endpoint& there = group.link(0, 1);
  Endpoint& back = group.link(1, 0);
  std::thread other([&] { exchange(back, 1, count); });
  exchange(there, 1, count);
  other.join();
}

TEST_P(Credit, AMillionNoticesBothWaysReturnAMillionCredits) {
  exchange_both_ways(GetParam(), 64, 1'000'000);
}

TEST_P(Credit, OneSlotIsEnough) {
  exchange_both_ways(GetParam(), 1, 20'000);
}

TEST_P(Credit, FourRanksAllToAll) {
  constexpr Rank kRanks = 4;
  Group group(GetParam(), kRanks);
  for (Rank from = 0; from < kRanks; ++from) {
    for (Rank to = 0; to < kRanks; ++to) (void)group.link(from, to);
  }
  std::vector<std::thread> threads;
  for (Rank self = 0; self < kRanks; ++self) {
    threads.emplace_back([&group, self] {
      for (Rank step = 0; step < kRanks; ++step) {
        // In step s the pairs (a, b) with a xor b = s exchange, so all talk at the same time
        // without cycles.
        exchange(group.link(self, self ^ step), 1 + static_cast<std::uint32_t>(step % 2), 2'000);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weft
