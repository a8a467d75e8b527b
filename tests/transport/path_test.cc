// Conformance: a path that is given up in the middle of a stream loses nothing and doubles nothing,
// and carries again once it is connected anew. Two interfaces of each rank make a bond, as the
// engine's rails do; the bytes of every notice are looked at.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/transport/bonded_pair.h"
#include "tests/transport/shared_buffer.h"

namespace weft {
namespace {

class Path : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(Path);

constexpr std::uint32_t kChannel = BondedPair::kChannel;
constexpr std::uint32_t kRails = BondedPair::kRails;

// Posts a large write, keeps its path busy with a piece, and posts a word behind it: another path
// would deliver the word first.
void publish(BondedPair& pair, std::span<const std::byte> data, const std::uint64_t& round,
             std::span<std::byte> target) {
  static const std::vector<std::byte> piece = numbered_payload(1, 20'001);
  WireHeader header = numbered_header(1);
  header.bytes = static_cast<std::uint32_t>(piece.size());
  Endpoint& peer = pair.link(0);
  const RemoteBuffer all = describe_memory(target.data(), data.size());
  ASSERT_EQ(peer.post_write(data, all, 1), Posted::posted);
  ASSERT_EQ(peer.post_piece(kChannel, header, piece), Posted::posted);
  const RemoteBuffer word = describe_memory(target.data() + data.size(), sizeof round);
  ASSERT_EQ(peer.post_write(std::as_bytes(std::span(&round, 1)), word, 2), Posted::posted);
}

TEST_P(Path, OneSidedWorkKeepsItsOrderWherePiecesTakeBothRails) {
  if (GetParam().name == "shm") GTEST_SKIP() << "memory is one path";
  constexpr std::size_t kBytes = std::size_t{256} << 10;
  BondedPair pair(GetParam());
  SharedBuffer target(kBytes + 8);
  auto& word = *reinterpret_cast<std::uint64_t*>(target.bytes().data() + kBytes);
  for (std::uint64_t round = 1; round <= 5; ++round) {
    const std::vector<std::byte> data(kBytes, static_cast<std::byte>(round));
    publish(pair, data, round, target.bytes());
    ASSERT_TRUE(pair.eventually([&] {
      return std::atomic_ref<std::uint64_t>(word).load(std::memory_order_acquire) == round;
    }));
    ASSERT_TRUE(std::ranges::equal(target.bytes().first(kBytes), data)) << round;
    std::array<Completion, 2> ends;
    std::size_t count = 0;
    ASSERT_TRUE(pair.eventually([&] {
      count += pair.bond(0).poll(std::span(ends).subspan(count));
      return count == ends.size();
    }));
    Endpoint& peer = pair.link(1);
    ASSERT_TRUE(pair.eventually([&] { return peer.front(kChannel).header != nullptr; }));
    peer.release(kChannel);
    ASSERT_TRUE(pair.eventually([&] { return pair.link(0).released(kChannel) == round; }));
  }
}

// What was posted before the path broke and is not known to have failed must not be overtaken by
// what takes the other rail.
TEST_P(Path, OneSidedWorkLeavesABrokenRailOnlyWhenItsFailureIsKnown) {
  if (GetParam().name == "shm") GTEST_SKIP() << "memory has no path that could be given up";
  BondedPair pair(GetParam());
  SharedBuffer target(8);
  const RemoteBuffer word = describe_memory(target.bytes().data(), 8);
  const std::vector<std::byte> local(8, std::byte{1});
  Endpoint& peer = pair.link(0);
  ASSERT_EQ(peer.post_write(local, word, 1), Posted::posted);
  for (std::size_t rail = 0; rail < kRails; ++rail) {
    if (pair.path(0, rail).at_work())
      pair.path(0, rail).abandon(Status(Code::unavailable, "given up by the test", 1));
  }
  ASSERT_EQ(peer.post_write(local, word, 2), Posted::posted);
  std::array<Completion, 2> ends;
  std::size_t count = 0;
  ASSERT_TRUE(pair.eventually([&] {
    count += pair.bond(0).poll(std::span(ends).subspan(count));
    return count == ends.size();
  }));
  for (const Completion& end : ends) EXPECT_FALSE(end.status.ok()) << end.ticket;
  EXPECT_FALSE(peer.at_work());
  Completion last;
  ASSERT_TRUE(pair.eventually([&] { return peer.post_write(local, word, 3) == Posted::posted; }));
  ASSERT_TRUE(pair.eventually([&] { return pair.bond(0).poll({&last, 1}) == 1; }));
  EXPECT_TRUE(last.status.ok()) << last.status.to_string();
}

TEST_P(Path, GivenUpInTheMiddleOfAStreamItLosesNothingAndCarriesAgain) {
  if (GetParam().name == "shm") GTEST_SKIP() << "memory has no path that could be given up";
  constexpr std::uint32_t kSome = 50;
  BondedPair pair(GetParam());
  for (Rank breaker = 0; breaker < 2; ++breaker) {
    const auto both_have = [&](std::uint32_t more, std::uint32_t since) {
      return pair.received(0) >= since + more && pair.received(1) >= since + more;
    };
    const std::uint32_t before = std::max(pair.received(0), pair.received(1));
    ASSERT_TRUE(pair.stream_until([&] {
      return both_have(kSome, before) && pair.path(breaker, 1).posted(kChannel) > 0;
    })) << "both rails carry";
    pair.path(breaker, 1).abandon(Status(Code::unavailable, "given up by the test", 1 - breaker));
    const std::uint32_t broken = std::max(pair.received(0), pair.received(1));
    ASSERT_TRUE(pair.stream_until([&] { return both_have(2 * kSome, broken); }));
    ASSERT_TRUE(pair.stream_until([&] {
      const Endpoint& again = pair.path(breaker, 1);
      return again.failure().ok() && again.posted(kChannel) > 0;
    })) << "the rail carries again";
  }
}

}  // namespace
}  // namespace weft
