// Conformance: what closing does to posted work, to credits and to peers; and that a rank may open
// a new interface.
#include "tests/transport/group.h"
#include "tests/transport/shared_buffer.h"

namespace weft {
namespace {

class Close : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(Close);

TEST_P(Close, EveryTicketCompletesOnceGoodOrFlushed) {
  Group group(GetParam(), 2);
  SharedBuffer buffer(1 << 20);
  const RemoteBuffer remote = describe_memory(buffer.bytes().data(), buffer.bytes().size());
  std::vector<std::byte> local(1 << 20);
  for (std::uint64_t ticket = 0; ticket < 8; ++ticket) {
    ASSERT_EQ(group.link(0, 1).post_write(local, remote, ticket), Posted::posted);
  }
  group.close(0);
  for (std::uint64_t ticket = 0; ticket < 8; ++ticket) {
    const Completion completion = group.wait_completion(0);
    EXPECT_EQ(completion.ticket, ticket);
    EXPECT_TRUE(completion.status.ok() || completion.status.code() == Code::closed);
  }
}

TEST_P(Close, WorkPostedLaterIsFlushedAndTouchesNothing) {
  Group group(GetParam(), 2);
  SharedBuffer buffer(8);
  const RemoteBuffer remote = describe_memory(buffer.bytes().data(), 8);
  Endpoint& peer = group.link(0, 1);
  group.close(0);
  std::vector<std::byte> local(8, std::byte{1});
  std::uint64_t found = 9;
  EXPECT_EQ(peer.post_write(local, remote, 1), Posted::posted);
  EXPECT_EQ(peer.post_read(local, remote, 2), Posted::posted);
  EXPECT_EQ(peer.post_compare_swap(remote, 0, 1, &found, 3), Posted::posted);
  for (std::uint64_t ticket = 1; ticket <= 3; ++ticket) {
    const Completion completion = group.wait_completion(0);
    EXPECT_EQ(completion.ticket, ticket);
    EXPECT_EQ(completion.status.code(), Code::closed);
  }
  EXPECT_EQ(local[0], std::byte{1});
  EXPECT_EQ(buffer.bytes()[0], std::byte{0});
  EXPECT_EQ(found, 9u);
}

TEST_P(Close, ReturnsTheCreditsThatThePeerStillHas) {
  Group group(GetParam(), 2);
  Endpoint& peer = group.link(0, 1);
  for (std::uint32_t n = 0; n < 3; ++n) {
    ASSERT_EQ(peer.post_notice(1, numbered_header(n), {}), Posted::posted);
  }
  EXPECT_EQ(peer.released(1), 0u);
  group.close(0);
  EXPECT_EQ(peer.posted(1), 3u);
  EXPECT_EQ(peer.released(1), 3u);
  EXPECT_EQ(peer.post_notice(1, numbered_header(3), {}), Posted::full)
      << "a closed interface takes no more";
}

TEST_P(Close, ThePeerStillReadsWhatWasPostedBefore) {
  Group group(GetParam(), 2);
  ASSERT_EQ(group.link(0, 1).post_notice(1, numbered_header(4), numbered_payload(4, 50)),
            Posted::posted);
  group.close(0);
  ASSERT_TRUE(group.eventually([&] { return group.link(1, 0).front(1).header != nullptr; }));
  EXPECT_TRUE(is_number(group.link(1, 0).front(1), 4, 50));
  group.link(1, 0).release(1);
}

TEST_P(Close, ThePeerIsTold) {
  Group group(GetParam(), 3);
  EXPECT_FALSE(group.link(1, 0).peer_closed());
  group.close(0);
  EXPECT_TRUE(group.eventually([&] { return group.link(1, 0).peer_closed(); }));
  EXPECT_FALSE(group.link(1, 2).peer_closed());
}

TEST_P(Close, APeerThatPostsToAClosedInterfaceIsOnlyHeldBack) {
  Group group(GetParam(), 2);
  Endpoint& sender = group.link(1, 0);
  group.close(0);
  std::uint32_t posted = 0;
  while (posted < 1000 && sender.post_notice(1, numbered_header(posted), {}) == Posted::posted)
    ++posted;
  EXPECT_LE(posted, small_options().slots);
}

// What rank 0's new interface and rank 1 say to each other, as number `n`, must not be mixed with
// what was said before.
void expect_talk(Group& group, std::uint32_t n) {
  for (const auto& [from, to] : {std::pair<Rank, Rank>{0, 1}, {1, 0}}) {
    EXPECT_EQ(group.link(to, from).front(1).header, nullptr) << "an old notice";
    ASSERT_EQ(group.link(from, to).post_notice(1, numbered_header(n), numbered_payload(n, 30)),
              Posted::posted);
    ASSERT_TRUE(group.eventually(
        [&, a = from, b = to] { return group.link(b, a).front(1).header != nullptr; }));
    EXPECT_TRUE(is_number(group.link(to, from).front(1), n, 30));
    group.link(to, from).release(1);
    EXPECT_TRUE(group.eventually([&, a = from, b = to] {
      return group.link(a, b).released(1) == group.link(a, b).posted(1);
    }));
  }
}

TEST_P(Close, ARankThatOpensANewInterfaceStartsAnew) {
  Group group(GetParam(), 2);
  expect_talk(group, 1);
  // Left unreleased on purpose: the new interface must not see it.
  ASSERT_EQ(group.link(1, 0).post_notice(1, numbered_header(50), {}), Posted::posted);
  for (std::uint32_t round = 2; round < 6; ++round) {
    Endpoint& old = group.link(1, 0);
    group.close(0);
    group.open(0);
    EXPECT_NE(&group.link(1, 0), &old) << "connect() to another address is another endpoint";
    EXPECT_EQ(old.peer(), 0) << "the old endpoint lives as long as its interface";
    expect_talk(group, round);
  }
}

TEST_P(Close, ANewInterfaceGetsAttention) {
  Group group(GetParam(), 2);
  expect_talk(group, 1);
  group.close(0);
  group.open(0);
  ASSERT_EQ(group.link(0, 1).post_notice(kControlChannel, numbered_header(2), {}), Posted::posted);
  (void)must(group.at(1).attention());  // may or may not know the new address yet
  Endpoint& renewed = group.link(1, 0);
  EXPECT_TRUE(group.eventually([&] { return must(group.at(1).attention()) == &renewed; }));
}

}  // namespace
}  // namespace weft
