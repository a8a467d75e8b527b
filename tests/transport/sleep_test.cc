// Conformance: a sleeping interface is woken by a notice, a release and wake(), and never misses
// one. The sleeps below may last a minute; a test that relied on that would fail by its length.
#include <poll.h>

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
    interface.progress();
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
  const auto receive = [&] {
    ASSERT_TRUE(eventually(group.at(1), [&] { return receiver.front(1).header != nullptr; }));
    receiver.release(1);
  };
  const auto send = [&](std::uint32_t n) {
    ASSERT_EQ(sender.post_notice(1, numbered_header(n), {}), Posted::posted);
    ASSERT_TRUE(sleep_until(group.at(0), [&] { return sender.released(1) == n + 1; }));
  };
  group.run([&](Rank self) {
    for (std::uint32_t n = 0; n < kRounds && !HasFailure(); ++n) self == 0 ? send(n) : receive();
  });
}

TEST_P(Sleep, ThePeersCloseEndsIt) {
  Group group(GetParam(), 2);
  Endpoint& peer = group.link(0, 1);
  (void)group.link(1, 0);
  group.run([&](Rank self) {
    if (self == 1) return group.at(1).close();
    EXPECT_TRUE(sleep_until(group.at(0), [&] { return peer.peer_closed(); }));
  });
}

TEST_P(Sleep, AStrangerEndsIt) {
  Group group(GetParam(), 2);
  Endpoint& to_sleeper = group.link(1, 0);
  Endpoint* asker = nullptr;
  const auto asked = [&] {
    if (asker == nullptr) asker = must(group.at(0).attention());
    return asker != nullptr;
  };
  group.run([&](Rank self) {
    if (self == 0) {
      EXPECT_TRUE(sleep_until(group.at(0), asked));
    } else {
      EXPECT_EQ(to_sleeper.post_notice(kControlChannel, numbered_header(0), {}), Posted::posted);
    }
  });
}

// The same by polling the interface's descriptor, as one sleeps on several interfaces at once.
template <typename Predicate>
bool poll_until(Interface& interface, Predicate done) {
  const int descriptor = must(interface.descriptor());
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (!done() && !deadline.passed()) {
    const std::int64_t start = now_ns();
    const bool safe = interface.arm();
    interface.progress();
    pollfd waiting{descriptor, POLLIN, 0};
    if (!done()) ::poll(&waiting, 1, safe ? 60'000 : 1);
    interface.disarm();
    interface.progress();
    if (now_ns() - start > kLongNs) return false;
  }
  return done();
}

// Both sides sleep in every round, so each wake-up must come.
template <typename Rest>
void play_ping_pong(const TransportFactory& transport, std::uint32_t rounds, Rest rest_until) {
  Group group(transport, 2);
  const auto play = [&](Interface& interface, Endpoint& peer, bool first) {
    const auto post = [&](std::uint32_t n) { return peer.post_notice(1, numbered_header(n), {}); };
    for (std::uint32_t n = 0; n < rounds; ++n) {
      ASSERT_TRUE(!first || post(n) == Posted::posted);
      ASSERT_TRUE(rest_until(interface, [&] { return peer.front(1).header != nullptr; })) << n;
      ASSERT_TRUE(is_number(peer.front(1), n, 0));
      peer.release(1);
      ASSERT_TRUE(first || post(n) == Posted::posted);
    }
  };
  const std::array<Endpoint*, 2> peers = {&group.link(0, 1), &group.link(1, 0)};
  group.run(
      [&](Rank self) { play(group.at(self), *peers[static_cast<std::size_t>(self)], self == 0); });
}

TEST_P(Sleep, PingPongOfSleepersLosesNoWakeUp) {
  play_ping_pong(GetParam(), 3'000,
                 [](Interface& interface, auto done) { return sleep_until(interface, done); });
}

TEST_P(Sleep, PingPongOfPollersLosesNoWakeUp) {
  play_ping_pong(GetParam(), 3'000,
                 [](Interface& interface, auto done) { return poll_until(interface, done); });
}

TEST_P(Sleep, WakeEndsAPoll) {
  Group group(GetParam(), 1);
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> flag = false;
    std::thread other([&] {
      flag.store(true, std::memory_order_release);
      group.at(0).wake();
    });
    EXPECT_TRUE(poll_until(group.at(0), [&] { return flag.load(std::memory_order_acquire); }));
    other.join();
  }
}

}  // namespace
}  // namespace weft
