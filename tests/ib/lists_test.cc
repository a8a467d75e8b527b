// One-sided work leaves in lists with few completions, and yet every ticket completes once, in
// order, when its data has landed.
#include <cerrno>
#include <numeric>

#include "tests/ib/pair.h"
#include "tests/transport/shared_buffer.h"

namespace weft::ib {
namespace {

constexpr std::size_t kBytes = 1024;

class IbLists : public testing::Test {
 protected:
  void SetUp() override {
    ranks.open_all();
    ranks.meet(0, 1);
    // The peer's chunk is known from here on.
    write(0, 8, 0);
    expect_tickets(0, 1);
    ranks.fabric.signalled = 0;
    lists_before_ = ranks.fabric.calls("post_send");
  }

  Endpoint& peer() { return ranks.link(0, 1); }
  RemoteBuffer place(std::size_t number, std::size_t bytes) {
    return describe_memory(target.bytes().data() + number * bytes, bytes);
  }
  void write(std::size_t number, std::size_t bytes, std::uint64_t ticket) {
    const std::span<const std::byte> from(source.data() + number * bytes, bytes);
    ASSERT_EQ(peer().post_write(from, place(number, bytes), ticket), Posted::posted);
  }
  // Each once, in order, all of them good.
  void expect_tickets(std::uint64_t first, std::uint64_t count) {
    std::uint64_t next = first;
    std::array<Completion, 7> some;
    ASSERT_TRUE(ranks.eventually([&] {
      const std::size_t got = ranks.at(0).poll(some);
      for (std::size_t c = 0; c < got; ++c) {
        EXPECT_EQ(some[c].ticket, next++);
        EXPECT_TRUE(some[c].status.ok()) << some[c].status.to_string();
      }
      return next == first + count;
    }));
    ranks.turn();
    EXPECT_EQ(ranks.at(0).poll(some), 0u) << "a ticket completed twice";
  }
  int lists() { return ranks.fabric.calls("post_send") - lists_before_; }

  Ranks ranks{2};
  SharedBuffer target{100 * kBytes};
  std::vector<std::byte> source = numbered_payload(7, 100 * kBytes);

 private:
  int lists_before_ = 0;
};

TEST_F(IbLists, WhatIsPostedBeforeATurnLeavesTogether) {
  for (std::uint64_t n = 0; n < 100; ++n) write(n, kBytes, n);
  EXPECT_EQ(lists(), 0);
  ranks.at(0).progress();
  EXPECT_EQ(lists(), 7) << "16 in a list";
  EXPECT_LE(ranks.fabric.signalled, 8u);
  expect_tickets(0, 100);
  EXPECT_TRUE(std::ranges::equal(source, target.bytes()));
}

// However many there are: what has no completion of its own is never the last.
TEST_F(IbLists, NothingStaysBehindWithoutACompletion) {
  for (std::uint64_t count = 1; count <= 70; ++count) {
    for (std::uint64_t n = 0; n < count; ++n) write(n, kBytes, n);
    expect_tickets(0, count);
    EXPECT_TRUE(ranks.eventually([&] { return ranks.at(0).flushed(); }));
  }
}

TEST_F(IbLists, ShortQueuesFillUpAndGoOn) {
  for (const std::uint32_t depth : {1U, 2U, 3U, 5U, 16U, 17U}) {
    Ranks few(2);
    few.ib.send_depth = depth;
    few.open_all();
    std::uint64_t done = 0;
    for (std::uint64_t n = 0; n < 90; ++n) {
      ASSERT_EQ(few.link(0, 1).post_write(std::span(source).first(kBytes), place(0, kBytes), n),
                Posted::posted);
    }
    std::array<Completion, 64> some;
    ASSERT_TRUE(few.eventually([&] {
      const std::size_t got = few.at(0).poll(some);
      for (std::size_t c = 0; c < got; ++c) EXPECT_EQ(some[c].ticket, done++);
      return done == 90;
    })) << depth;
  }
}

TEST_F(IbLists, ALongWriteDoesNotWaitForTheRestOfItsList) {
  constexpr std::size_t kLong = 25 * kBytes;
  for (std::uint64_t n = 0; n < 4; ++n) write(n, kLong, n);
  ranks.at(0).progress();
  EXPECT_EQ(lists(), 1);
  EXPECT_EQ(ranks.fabric.signalled, 4u);
  expect_tickets(0, 4);
}

TEST_F(IbLists, ReadsAndWritesKeepTheirOrder) {
  std::vector<std::byte> back(100 * kBytes);
  for (std::uint64_t n = 0; n < 50; ++n) {
    write(n, kBytes, 2 * n);
    ASSERT_EQ(
        peer().post_read(std::span(back).subspan(n * kBytes, kBytes), place(n, kBytes), 2 * n + 1),
        Posted::posted);
  }
  expect_tickets(0, 100);
  EXPECT_TRUE(std::equal(back.begin(), back.begin() + 50 * kBytes, source.begin()));
}

// More than may be under way: full is normal, and what each of them found is its own.
TEST_F(IbLists, EveryCompareAndSwapSeesTheOneBefore) {
  constexpr std::uint64_t kSwaps = 1000;
  std::vector<std::uint64_t> found(kSwaps, ~std::uint64_t{0});
  std::uint64_t posted = 0;
  std::uint64_t done = 0;
  std::ranges::fill(target.bytes().first(8), std::byte{0});
  std::array<Completion, 9> some;
  ASSERT_TRUE(ranks.eventually([&] {
    while (posted < kSwaps && peer().post_compare_swap(place(0, 8), posted, posted + 1,
                                                       &found[posted], posted) == Posted::posted)
      ++posted;
    const std::size_t got = ranks.at(0).poll(some);
    for (std::size_t c = 0; c < got; ++c) EXPECT_EQ(some[c].ticket, done++);
    return done == kSwaps;
  }));
  std::vector<std::uint64_t> expected(kSwaps);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(found, expected);
}

TEST_F(IbLists, WhatFitsIntoAWorkRequestIsNotRegistered) {
  ranks.fabric.limits.memlock = ranks.fabric.locked;
  for (std::uint64_t n = 0; n < 50; ++n) write(n, 8, n);
  expect_tickets(0, 50);
  EXPECT_TRUE(std::equal(source.begin(), source.begin() + 400, target.bytes().begin()));
}

TEST_F(IbLists, AFailureInTheMiddleOfAListIsThatOfWhatFailed) {
  int writes = 0;
  ranks.fabric.works = [&](const ScriptedWork& work) {
    if (work.device != "scripted0" || work.bytes != kBytes) return IBV_WC_SUCCESS;
    return ++writes == 8 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS;
  };
  for (std::uint64_t n = 0; n < 40; ++n) write(n, kBytes, n);
  std::uint64_t next = 0;
  std::array<Completion, 7> some;
  ASSERT_TRUE(ranks.eventually([&] {
    const std::size_t got = ranks.at(0).poll(some);
    for (std::size_t c = 0; c < got; ++c, ++next) {
      EXPECT_EQ(some[c].ticket, next);
      EXPECT_EQ(some[c].status.ok(), next < 7) << next;
    }
    return next == 40;
  }));
}

TEST_F(IbLists, ARefusedListFailsWithAllThatIsInIt) {
  ranks.fabric.refuse("post_send", ENOMEM, 1);
  for (std::uint64_t n = 0; n < 40; ++n) write(n, kBytes, n);
  std::uint64_t next = 0;
  std::array<Completion, 40> some;
  ASSERT_TRUE(ranks.eventually([&] {
    const std::size_t got = ranks.at(0).poll(some);
    for (std::size_t c = 0; c < got; ++c) EXPECT_EQ(some[c].ticket, next++);
    return next == 40;
  }));
  EXPECT_EQ(some.back().status.code(), Code::exhausted);
  ranks.fabric.allow();
}

TEST_F(IbLists, ClosingFlushesWhatWasPostedAndNotHandedOver) {
  for (std::uint64_t n = 0; n < 40; ++n) write(n, kBytes, n);
  ranks.at(0).close();
  std::array<Completion, 41> all;
  ASSERT_EQ(ranks.at(0).poll(all), 40u);
  for (std::uint64_t n = 0; n < 40; ++n) EXPECT_EQ(all[n].ticket, n);
  EXPECT_TRUE(all.front().status.ok()) << "what was posted before leaves first";
}

}  // namespace
}  // namespace weft::ib
