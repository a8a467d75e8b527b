// Conformance: pieces of any size arrive whole and in order with what else is on their channel, and
// their memory is the caller's again once they have completed locally.
#include <algorithm>

#include "tests/transport/group.h"

namespace weft {
namespace {

class Piece : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(Piece);

// Posts number `n` as a piece of what `source` holds.
bool post_piece(Endpoint& from, std::uint32_t channel, std::uint32_t n,
                std::span<const std::byte> source) {
  return from.post_piece(channel, numbered_header(n), source) == Posted::posted;
}

void expect_next(Group& group, std::uint32_t channel, std::uint32_t n, std::size_t bytes) {
  Endpoint& to = group.link(1, 0);
  ASSERT_TRUE(group.eventually([&] { return to.front(channel).header != nullptr; })) << n;
  EXPECT_TRUE(is_number(to.front(channel), n, bytes));
  to.release(channel);
}

TEST_P(Piece, EverySizeArrivesWhole) {
  Group group(GetParam(), 2);
  const std::size_t most = group.at(0).piece_bytes();
  ASSERT_GE(most, small_options().payload_bytes);
  std::uint32_t n = 0;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, small_options().payload_bytes,
        small_options().payload_bytes + 1, most / 2 + 1, most - 1, most}) {
    const std::size_t size = std::min(bytes, most);
    const std::vector<std::byte> source = numbered_payload(n, size);
    ASSERT_TRUE(post_piece(group.link(0, 1), 1, n, source)) << size;
    expect_next(group, 1, n, size);
    ASSERT_TRUE(group.eventually([&] { return group.link(0, 1).locally_completed(1) == n + 1; }));
    ++n;
  }
}

TEST_P(Piece, WhatIsSettledMayBeOverwritten) {
  Group group(GetParam(), 2);
  Endpoint& from = group.link(0, 1);
  const std::size_t bytes = group.at(0).piece_bytes();
  std::vector<std::byte> source(bytes);
  for (std::uint32_t n = 0; n < 20; ++n) {
    const std::vector<std::byte> content = numbered_payload(n, bytes);
    std::copy(content.begin(), content.end(), source.begin());
    ASSERT_TRUE(post_piece(from, 1, n, source));
    if (!from.properties()
             .shares_memory) {  // where memory is shared, what may be read in place does not complete by itself
      ASSERT_TRUE(group.eventually([&] { return from.locally_completed(1) == n + 1; }));
      std::fill(source.begin(), source.end(), std::byte{0xee});
    }
    expect_next(group, 1, n, bytes);
    ASSERT_TRUE(group.eventually([&] { return from.released(1) == n + 1; }));
  }
}

TEST_P(Piece, SmallNoticesDoNotOvertakeThem) {
  Group group(GetParam(), 2);
  Endpoint& from = group.link(0, 1);
  const std::size_t bytes = group.at(0).piece_bytes();
  for (std::uint32_t round = 0; round < 25; ++round) {
    const std::uint32_t first = round * 4;
    const std::vector<std::byte> one = numbered_payload(first, bytes);
    const std::vector<std::byte> three = numbered_payload(first + 2, bytes);
    ASSERT_TRUE(post_piece(from, 1, first, one));
    ASSERT_EQ(from.post_notice(1, numbered_header(first + 1), numbered_payload(first + 1, 9)),
              Posted::posted);
    ASSERT_TRUE(post_piece(from, 1, first + 2, three));
    ASSERT_EQ(from.post_notice(1, numbered_header(first + 3), {}), Posted::posted);
    EXPECT_EQ(from.post_piece(1, numbered_header(first + 4), one), Posted::full);
    for (std::uint32_t i = 0; i < 4; ++i) {
      expect_next(group, 1, first + i, i == 1 ? 9 : i == 3 ? 0 : bytes);
    }
    ASSERT_TRUE(group.eventually([&] { return from.released(1) == first + 4; }));
    EXPECT_EQ(from.locally_completed(1), first + 4);
  }
}

TEST_P(Piece, AllChannelsCarryThemAtOnce) {
  Group group(GetParam(), 2);
  const std::size_t bytes = group.at(0).piece_bytes();
  const std::uint32_t slots = small_options().slots;
  std::vector<std::vector<std::byte>> sources;
  for (std::uint32_t n = 0; n < slots; ++n) sources.push_back(numbered_payload(n, bytes));
  for (std::uint32_t channel = 1; channel < small_options().channels; ++channel) {
    for (std::uint32_t n = 0; n < slots; ++n)
      ASSERT_TRUE(post_piece(group.link(0, 1), channel, n, sources[n]));
  }
  for (std::uint32_t channel = small_options().channels - 1; channel > 0; --channel) {
    ASSERT_TRUE(group.eventually([&] { return group.link(1, 0).arrived(channel) == slots; }));
    for (std::uint32_t n = 0; n < slots; ++n) expect_next(group, channel, n, bytes);
  }
}

TEST_P(Piece, ClosingSettlesThemAll) {
  Group group(GetParam(), 2);
  const std::vector<std::byte> source = numbered_payload(0, group.at(0).piece_bytes());
  Endpoint& from = group.link(0, 1);
  for (std::uint32_t n = 0; n < small_options().slots; ++n)
    ASSERT_TRUE(post_piece(from, 1, n, source));
  group.close(0);
  EXPECT_EQ(from.locally_completed(1), small_options().slots);
  EXPECT_EQ(from.released(1), small_options().slots);
}

// The other end may be told or not; ours never waits for it again.
TEST_P(Piece, AnAbandonedPathHoldsNothing) {
  Group group(GetParam(), 2);
  Endpoint& from = group.link(0, 1);
  if (from.properties().shares_memory) GTEST_SKIP() << "memory has no path that could be given up";
  const std::vector<std::byte> source = numbered_payload(0, group.at(0).piece_bytes());
  ASSERT_TRUE(post_piece(from, 1, 0, source));
  from.abandon(Status(Code::unavailable, "given up", 1));
  EXPECT_EQ(from.failure().text(), "given up");
  EXPECT_EQ(from.locally_completed(1), 1u);
  EXPECT_EQ(from.post_notice(1, numbered_header(1), {}), Posted::full);
  std::vector<std::byte> local(8);
  ASSERT_EQ(from.post_read(local, {PieceForm::view, 64, 8}, 7), Posted::posted);
  const Completion completion = group.wait_completion(0);
  EXPECT_EQ(completion.ticket, 7u);
  EXPECT_EQ(completion.status.text(), "given up");
}

}  // namespace
}  // namespace weft
