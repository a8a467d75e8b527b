// Conformance: each channel is one ordered stream, independent of the others, that carries headers
// and payloads unchanged.
#include <algorithm>
#include <array>

#include "tests/transport/group.h"

namespace weft {
namespace {

class Order : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(Order);

// A channel of one rank's endpoint to another, in a group that one thread owns.
struct OrderStream {
  Group& group;
  Rank from;
  Rank to;
  std::uint32_t channel;
};

void post(const OrderStream& stream, std::uint32_t n, std::size_t bytes) {
  const std::vector<std::byte> payload = numbered_payload(n, bytes);
  Endpoint& from = stream.group.link(stream.from, stream.to);
  ASSERT_TRUE(stream.group.eventually([&] {
    return from.post_notice(stream.channel, numbered_header(n), payload) == Posted::posted;
  }));
}

void expect_next(const OrderStream& stream, std::uint32_t n, std::size_t bytes) {
  Endpoint& to = stream.group.link(stream.to, stream.from);
  const std::uint32_t channel = stream.channel;
  ASSERT_TRUE(stream.group.eventually([&] { return to.front(channel).header != nullptr; }));
  EXPECT_TRUE(is_number(to.front(channel), n, bytes));
  to.release(channel);
}

TEST_P(Order, NothingIsThereBeforeAnythingIsPosted) {
  Group group(GetParam(), 2);
  for (std::uint32_t channel = 0; channel < small_options().channels; ++channel) {
    EXPECT_EQ(group.link(0, 1).front(channel).header, nullptr);
    EXPECT_EQ(group.link(0, 1).posted(channel), 0u);
    EXPECT_EQ(group.link(0, 1).released(channel), 0u);
  }
}

TEST_P(Order, AChannelDeliversWhatWasPostedInOrder) {
  Group group(GetParam(), 2);
  for (std::uint32_t n = 0; n < 1000; ++n) {
    post({group, 0, 1, 1}, n, n % 256);
    expect_next({group, 0, 1, 1}, n, n % 256);
  }
  EXPECT_EQ(group.link(1, 0).front(1).header, nullptr);
}

// Notices and pieces by turns.
Posted post_either(Endpoint& endpoint, std::uint32_t n, std::span<const std::byte> payload) {
  return n % 8 == 0 ? endpoint.post_piece(1, numbered_header(n), payload)
                    : endpoint.post_notice(1, numbered_header(n), payload.first(n % 256));
}

TEST_P(Order, ATurnThatTellsOfNoNewsHasChangedNothing) {
  constexpr std::uint32_t kNotices = 1000;
  Group group(GetParam(), 2);
  Endpoint& from = group.link(0, 1);
  Endpoint& to = group.link(1, 0);
  const std::vector<std::byte> payload(group.at(0).piece_bytes());
  const auto seen = [&] {
    return std::array{to.arrived(1), from.released(1), from.locally_completed(1),
                      std::uint64_t{from.failure().ok()}};
  };
  std::uint32_t posted = 0;
  std::uint32_t full_at = kNotices;
  ASSERT_TRUE(eventually([&] {
    bool news = false;
    for (const Rank rank : {0, 1}) {
      const auto before = seen();
      const bool says = group.at(rank).progress();
      EXPECT_TRUE(says || seen() == before) << "notice " << posted;
      news |= says;
    }
    const bool is_posted =
        posted < kNotices && post_either(from, posted, payload) == Posted::posted;
    EXPECT_TRUE(news || !is_posted || full_at != posted) << "room for " << posted;
    full_at = is_posted ? kNotices : posted;
    posted += is_posted ? 1 : 0;
    if (to.front(1).header != nullptr) to.release(1);
    return from.released(1) == kNotices;
  }));
  // And when all is quiet there is none: otherwise a lane would ask its operations for ever.
  if (from.properties().shares_memory) return;
  EXPECT_TRUE(eventually([&] {
    const bool first = group.at(0).progress();
    return !group.at(1).progress() && !first;
  }));
}

TEST_P(Order, FrontShowsTheSameNoticeUntilItIsReleased) {
  Group group(GetParam(), 2);
  for (std::uint32_t n = 0; n < 3; ++n) post({group, 0, 1, 1}, n, 8);
  expect_next({group, 0, 1, 1}, 0, 8);
  EXPECT_TRUE(is_number(group.link(1, 0).front(1), 1, 8));
  EXPECT_TRUE(is_number(group.link(1, 0).front(1), 1, 8));
}

TEST_P(Order, PayloadsOfEverySizeArriveWhole) {
  Group group(GetParam(), 2);
  const std::size_t most = small_options().payload_bytes;
  std::uint32_t n = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8},
                                  std::size_t{63}, std::size_t{64}, most - 1, most}) {
    post({group, 0, 1, 2}, n, bytes);
    expect_next({group, 0, 1, 2}, n, bytes);
    ++n;
  }
}

TEST_P(Order, PayloadsMayStartAtAnyAddress) {
  Group group(GetParam(), 2);
  const std::vector<std::byte> source = numbered_payload(9, 200);
  for (std::size_t start = 0; start < 9; ++start) {
    const std::span<const std::byte> part = std::span(source).subspan(start, 101);
    ASSERT_EQ(group.link(0, 1).post_notice(1, numbered_header(0), part), Posted::posted);
    ASSERT_TRUE(group.eventually([&] { return group.link(1, 0).front(1).header != nullptr; }));
    EXPECT_EQ(std::memcmp(group.link(1, 0).front(1).payload, part.data(), part.size()), 0);
    group.link(1, 0).release(1);
  }
}

TEST_P(Order, TheControlChannelCarriesAtLeastControlBytes) {
  InterfaceOptions options = small_options();
  options.payload_bytes = 8;
  Group group(GetParam(), 2, options);
  post({group, 0, 1, kControlChannel}, 5, kControlBytes);
  expect_next({group, 0, 1, kControlChannel}, 5, kControlBytes);
}

TEST_P(Order, AFullChannelHoldsNoOtherBack) {
  Group group(GetParam(), 2);
  const std::uint32_t slots = small_options().slots;
  for (std::uint32_t n = 0; n < slots; ++n) post({group, 0, 1, 1}, n, 16);
  ASSERT_EQ(group.link(0, 1).post_notice(1, numbered_header(slots), {}), Posted::full);
  for (std::uint32_t n = 0; n < 20; ++n) {
    post({group, 0, 1, 2}, n, 16);
    expect_next({group, 0, 1, 2}, n, 16);
  }
  for (std::uint32_t n = 0; n < slots; ++n) expect_next({group, 0, 1, 1}, n, 16);
}

// Hundreds of small notices between two turns, in both directions, more than go into one message.
TEST_P(Order, ManyOfOneTurnArriveInTheOrderOfTheirChannels) {
  InterfaceOptions options = small_options();
  options.channels = 9;
  options.slots = 64;
  Group group(GetParam(), 2, options);
  const auto bytes_of = [&](std::uint32_t n) { return n * 37 % (options.payload_bytes + 1); };
  for (const auto& [from, to] : {std::pair<Rank, Rank>{0, 1}, {1, 0}}) {
    Endpoint& sender = group.link(from, to);
    for (std::uint32_t n = 0; n < options.slots; ++n) {
      const std::vector<std::byte> payload = numbered_payload(n, bytes_of(n));
      for (std::uint32_t channel = 0; channel < options.channels; ++channel)
        ASSERT_EQ(sender.post_notice(channel, numbered_header(n), payload), Posted::posted);
    }
  }
  for (std::uint32_t channel = 0; channel < options.channels; ++channel) {
    for (std::uint32_t n = 0; n < options.slots; ++n) {
      expect_next({group, 0, 1, channel}, n, bytes_of(n));
      expect_next({group, 1, 0, channel}, n, bytes_of(n));
    }
    EXPECT_TRUE(
        group.eventually([&] { return group.link(0, 1).released(channel) == options.slots; }));
    EXPECT_EQ(group.link(0, 1).locally_completed(channel), options.slots);
  }
}

TEST_P(Order, PairsOfOneRankDoNotMix) {
  Group group(GetParam(), 4);
  for (Rank to = 1; to < 4; ++to) post({group, 0, to, 1}, static_cast<std::uint32_t>(to), 40);
  for (Rank to = 1; to < 4; ++to) {
    expect_next({group, 0, to, 1}, static_cast<std::uint32_t>(to), 40);
    EXPECT_EQ(group.link(to, 0).front(1).header, nullptr);
  }
}

TEST_P(Order, ARankMayTalkToItself) {
  Group group(GetParam(), 1);
  post({group, 0, 0, 1}, 3, 24);
  expect_next({group, 0, 0, 1}, 3, 24);
  EXPECT_TRUE(group.eventually([&] { return group.link(0, 0).released(1) == 1; }));
}

TEST_P(Order, ConnectGivesTheEndpointThatExists) {
  Group group(GetParam(), 2);
  EXPECT_EQ(&group.link(0, 1), &group.link(0, 1));
  EXPECT_EQ(group.link(0, 1).peer(), 1);
  EXPECT_GT(group.at(0).endpoint_bytes(), 0u);
  EXPECT_LE(group.at(0).address().size(), 256u);
}

}  // namespace
}  // namespace weft
