// Conformance: a sleeping interface is woken by a notice, a release and wake(), and never misses
// one. The sleeps below may last a minute; a test that relied on that would fail by its length.
#include <atomic>
#include <thread>

#include "tests/transport/group.h"

namespace weft {
namespace {

class Sleep : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(Sleep);

constexpr std::int64_t kMinuteNs = 60'000'000'000;
constexpr std::int64_t kLongNs = 20'000'000'000;

// Sleeps until `done`; whether no single sleep had to end by its timeout.
template <typename Predicate>
bool sleep_until(Interface& interface, Predicate done) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (!done() && !deadline.passed()) {
    const std::int64_t start = now_ns();
    interface.sleep(kMinuteNs, done);
    if (now_ns() - start > kLongNs) return false;
  }
  return done();
}

TEST_P(Sleep, EndsAtItsTimeout) {
  Group group(GetParam(), 1);
  int asked = 0;
  group.at(0).sleep(1'000'000, [&] {
    ++asked;
    return false;
  });
  EXPECT_EQ(asked, 1);
}

TEST_P(Sleep, DoesNotBeginWhenReady) {
  Group group(GetParam(), 1);
  const std::int64_t start = now_ns();
  group.at(0).sleep(kMinuteNs, [] { return true; });
  EXPECT_LT(now_ns() - start, kLongNs);
}

TEST_P(Sleep, WakeEndsIt) {
  Group group(GetParam(), 1);
  for (int round = 0; round < 500; ++round) {
    std::atomic<bool> flag = false;
    std::thread other([&] {
      flag.store(true, std::memory_order_release);
      group.at(0).wake();
    });
    EXPECT_TRUE(sleep_until(group.at(0), [&] { return flag.load(std::memory_order_acquire); }));
    other.join();
  }
}

TEST_P(Sleep, AReleaseEndsIt) {
  InterfaceOptions options = small_options();
  options.slots = 1;
  Group group(GetParam(), 2, options);
  Endpoint& sender = group.link(0, 1);
  Endpoint& receiver = group.link(1, 0);
  constexpr std::uint32_t kRounds = 3'000;
  std::thread other([&] {
    for (std::uint32_t n = 0; n < kRounds; ++n) {
      ASSERT_TRUE(eventually([&] { return receiver.front(1).header != nullptr; }));
      receiver.release(1);
    }
  });
  for (std::uint32_t n = 0; n < kRounds; ++n) {
    ASSERT_EQ(sender.post_notice(1, numbered_header(n), {}), Posted::posted);
    ASSERT_TRUE(sleep_until(group.at(0), [&] { return sender.released(1) == n + 1; }));
  }
  other.join();
}

TEST_P(Sleep, ThePeersCloseEndsIt) {
  Group group(GetParam(), 2);
  Endpoint& peer = group.link(0, 1);
  (void)group.link(1, 0);
  std::thread other([&] { group.at(1).close(); });
  EXPECT_TRUE(sleep_until(group.at(0), [&] { return peer.peer_closed(); }));
  other.join();
}

TEST_P(Sleep, AStrangerEndsIt) {
  Group group(GetParam(), 2);
  std::thread stranger([&to_sleeper = group.link(1, 0)] {
    EXPECT_EQ(to_sleeper.post_notice(kControlChannel, numbered_header(0), {}), Posted::posted);
  });
  Endpoint* asker = nullptr;
  EXPECT_TRUE(sleep_until(group.at(0), [&] {
    if (asker == nullptr) asker = must(group.at(0).attention());
    return asker != nullptr;
  }));
  stranger.join();
}

// Both sides sleep in every round, so each of 20,000 wake-ups must come.
TEST_P(Sleep, PingPongOfSleepersLosesNoWakeUp) {
  constexpr std::uint32_t kRounds = 10'000;
  Group group(GetParam(), 2);
  const auto play = [](Interface& interface, Endpoint& peer, bool first) {
    const auto post = [&](std::uint32_t n) { return peer.post_notice(1, numbered_header(n), {}); };
    for (std::uint32_t n = 0; n < kRounds; ++n) {
      ASSERT_TRUE(!first || post(n) == Posted::posted);
      ASSERT_TRUE(sleep_until(interface, [&] { return peer.front(1).header != nullptr; })) << n;
      ASSERT_TRUE(is_number(peer.front(1), n, 0));
      peer.release(1);
      ASSERT_TRUE(first || post(n) == Posted::posted);
    }
  };
  Endpoint& there = group.link(0, 1);
  Endpoint& back = group.link(1, 0);
  std::thread other([&] { play(group.at(1), back, false); });
  play(group.at(0), there, true);
  other.join();
}

}  // namespace
}  // namespace weft
