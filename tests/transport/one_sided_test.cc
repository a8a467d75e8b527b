// Conformance: write, read and compare-and-swap do what they say inside a region, fail by a
// completion outside of it, and complete exactly once, oldest first.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "tests/transport/group.h"
#include "tests/transport/shared_buffer.h"

namespace weft {
namespace {

class OneSided : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(OneSided);

constexpr std::uint64_t kTicket = 77;

Status write(Group& group, std::span<const std::byte> local, const RemoteBuffer& remote) {
  EXPECT_EQ(group.link(0, 1).post_write(local, remote, kTicket), Posted::posted);
  const Completion completion = group.wait_completion(0);
  EXPECT_EQ(completion.ticket, kTicket);
  return completion.status;
}

Status read(Group& group, std::span<std::byte> local, const RemoteBuffer& remote) {
  EXPECT_EQ(group.link(0, 1).post_read(local, remote, kTicket), Posted::posted);
  const Completion completion = group.wait_completion(0);
  EXPECT_EQ(completion.ticket, kTicket);
  return completion.status;
}

void expect_round_trip(Group& group, std::span<std::byte> target) {
  const RemoteBuffer remote = describe_memory(target.data(), target.size());
  const std::vector<std::byte> sent = numbered_payload(5, target.size());
  ASSERT_TRUE(write(group, sent, remote).ok());
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), target.begin()));
  std::vector<std::byte> got(target.size());
  ASSERT_TRUE(read(group, got, remote).ok());
  EXPECT_EQ(got, sent);
  std::vector<std::byte> now(target.size());
  const Status status = group.link(0, 1).read_now(now, remote);
  EXPECT_TRUE(status.ok() ? now == sent : status.code() == Code::unavailable) << status.to_string();
}

TEST_P(OneSided, WhatIsWrittenIsReadBackAtAnySizeAndAlignment) {
  Group group(GetParam(), 2);
  SharedBuffer buffer(3 << 20);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8},
                                  std::size_t{4097}, (std::size_t{3} << 20) - 8}) {
    for (const std::size_t start : {std::size_t{0}, std::size_t{1}, std::size_t{7}}) {
      expect_round_trip(group, buffer.bytes().subspan(start, bytes));
    }
  }
}

// A block that was given back and taken again has the address that it had, and maybe other pages.
TEST_P(OneSided, MemoryThatCameBackIsReachedWhereItIsNow) {
  Group group(GetParam(), 2);
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  const void* before = nullptr;
  for (int round = 0; round < 3; ++round) {
    SharedBuffer buffer(kBytes);
    ASSERT_TRUE(round == 0 || buffer.bytes().data() == before) << "first fit";
    before = buffer.bytes().data();
    EXPECT_EQ(buffer.bytes()[kBytes - 1], std::byte{0});
    expect_round_trip(group, buffer.bytes());
  }
}

TEST_P(OneSided, PrivateMemoryIsReachedWhereTheKernelAllowsIt) {
  Group group(GetParam(), 2);
  std::vector<std::byte> buffer(100'001);
  if (group.link(0, 1).properties().process_access.ok()) {
    expect_round_trip(group, std::span(buffer).subspan(1));
    return;
  }
  const RemoteBuffer remote = describe_memory(buffer.data(), buffer.size());
  EXPECT_FALSE(write(group, std::vector<std::byte>(8, std::byte{1}), remote).ok());
  EXPECT_EQ(buffer[0], std::byte{0});
}

TEST_P(OneSided, OnlyTheBytesAskedForChange) {
  Group group(GetParam(), 2);
  SharedBuffer buffer(64);
  const std::vector<std::byte> sent = numbered_payload(1, 10);
  ASSERT_TRUE(write(group, sent, describe_memory(buffer.bytes().data() + 20, 30)).ok());
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(buffer.bytes()[i], i >= 20 && i < 30 ? sent[i - 20] : std::byte{0}) << i;
  }
}

TEST_P(OneSided, AViewShowsThePeersMemoryInPlace) {
  Group group(GetParam(), 2);
  SharedBuffer buffer(100);
  const std::byte* seen =
      group.link(0, 1).view(describe_memory(buffer.bytes().data(), buffer.bytes().size()));
  ASSERT_EQ(seen != nullptr, group.link(0, 1).properties().shares_memory);
  if (seen == nullptr) return;
  buffer.bytes()[99] = std::byte{42};
  EXPECT_EQ(seen[99], std::byte{42});
}

// Buffers that lie outside of every region, by arithmetic that overflows in as many ways as we
// could think of.
std::vector<RemoteBuffer> outside(const RemoteBuffer& good) {
  constexpr std::uint64_t kTop = ~std::uint64_t{0};
  const std::uint64_t end = must(heap_identity()).bytes;
  return {
      {PieceForm::view, kTop, 1},
      {PieceForm::view, kTop - 7, 16},
      {PieceForm::view, kTop - 15, 16},
      {PieceForm::view, std::uint64_t{1} << 63, 16},
      {PieceForm::view, end, 16},
      {PieceForm::view, end - 8, 16},
      {PieceForm::view, end + good.word, 16},
      {PieceForm::view, kTop - good.word + 1, good.word + 16},
      {PieceForm::view, good.word, kTop},
      {PieceForm::view, good.word, kTop - good.word + 1},
      {PieceForm::process, 8, 16},
      {PieceForm::process, kTop - 7, 16},
      {PieceForm::inlined, good.word, 16},
      {PieceForm::payload, good.word, 16},
      {static_cast<PieceForm>(200), good.word, 16},
  };
}

TEST_P(OneSided, OutsideOfTheRegionIsAFailedCompletion) {
  Group group(GetParam(), 2);
  SharedBuffer buffer(64);
  const RemoteBuffer good = describe_memory(buffer.bytes().data(), 64);
  std::vector<std::byte> local(16, std::byte{0xee});
  std::uint64_t found = 0;
  for (const RemoteBuffer& bad : outside(good)) {
    SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(bad.form) << " word " << std::hex
                                    << bad.word << " bytes " << bad.bytes);
    EXPECT_FALSE(write(group, local, bad).ok());
    EXPECT_FALSE(read(group, local, bad).ok());
    EXPECT_FALSE(group.link(0, 1).read_now(local, bad).ok());
    ASSERT_EQ(group.link(0, 1).post_compare_swap(bad, 0, 1, &found, kTicket), Posted::posted);
    EXPECT_FALSE(group.wait_completion(0).status.ok());
    EXPECT_TRUE(bad.form == PieceForm::process || group.link(0, 1).view(bad) == nullptr);
  }
  for (const std::byte byte : buffer.bytes()) EXPECT_EQ(byte, std::byte{0});
}

TEST_P(OneSided, MoreThanTheRegionIsAFailedCompletion) {
  Group group(GetParam(), 2);
  SharedBuffer buffer(64);
  std::vector<std::byte> local(17, std::byte{0xee});
  const RemoteBuffer remote = describe_memory(buffer.bytes().data(), 16);
  EXPECT_EQ(write(group, local, remote).code(), Code::invalid_argument);
  EXPECT_EQ(read(group, local, remote).code(), Code::invalid_argument);
  for (const std::byte byte : buffer.bytes()) EXPECT_EQ(byte, std::byte{0});
}

TEST_P(OneSided, OffsetsAreNotCutTo32Bits) {
  Group group(GetParam(), 2);
  SharedBuffer buffer(64);
  const RemoteBuffer good = describe_memory(buffer.bytes().data(), 16);
  if (must(heap_identity()).bytes < (std::uint64_t{1} << 33))
    GTEST_SKIP() << "the heap is smaller than 8 GiB";
  buffer.bytes()[0] = std::byte{42};
  std::vector<std::byte> local(16, std::byte{0xee});
  ASSERT_TRUE(read(group, local, {good.form, good.word + (std::uint64_t{1} << 32), 16}).ok());
  EXPECT_EQ(local[0], std::byte{0}) << "read at the offset modulo 2^32";
}

TEST_P(OneSided, AHoleInPrivateMemoryIsAFailedCompletion) {
  Group group(GetParam(), 2);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(static_cast<std::byte*>(pages) + page, page, PROT_NONE), 0);
  std::vector<std::byte> local(2 * page);
  EXPECT_FALSE(read(group, local, describe_memory(pages, 2 * page)).ok());
  EXPECT_FALSE(write(group, local, describe_memory(pages, 2 * page)).ok());
  munmap(pages, 2 * page);
}

TEST_P(OneSided, CompareSwapSwapsOnlyWhatWasExpected) {
  Group group(GetParam(), 2);
  SharedBuffer buffer(8);
  const RemoteBuffer remote = describe_memory(buffer.bytes().data(), 8);
  const auto compare_swap = [&](std::uint64_t expected, std::uint64_t desired) {
    std::uint64_t found = ~std::uint64_t{0};
    EXPECT_EQ(group.link(0, 1).post_compare_swap(remote, expected, desired, &found, kTicket),
              Posted::posted);
    EXPECT_TRUE(group.wait_completion(0).status.ok());
    return found;
  };
  constexpr std::uint64_t kBig = 0x8000'0001'0000'0002;
  EXPECT_EQ(compare_swap(0, kBig), 0u);
  EXPECT_EQ(compare_swap(0, 5), kBig);
  EXPECT_EQ(compare_swap(kBig, 6), kBig);
  EXPECT_EQ(compare_swap(6, 6), 6u);
}

TEST_P(OneSided, CompareSwapWantsEightAlignedBytes) {
  Group group(GetParam(), 2);
  SharedBuffer buffer(64);
  std::uint64_t found = 0;
  for (const auto& [start, bytes] :
       {std::pair<std::size_t, std::size_t>{1, 8}, {4, 8}, {0, 7}, {0, 0}}) {
    const RemoteBuffer remote = describe_memory(buffer.bytes().data() + start, bytes);
    ASSERT_EQ(group.link(0, 1).post_compare_swap(remote, 0, 1, &found, kTicket), Posted::posted);
    EXPECT_EQ(group.wait_completion(0).status.code(), Code::invalid_argument)
        << start << ' ' << bytes;
  }
}

// Adds 1 by compare-and-swap, `times` times.
void count_up(Interface& interface, Endpoint& owner, const RemoteBuffer& counter,
              std::uint32_t times) {
  std::uint64_t expected = 0;
  for (std::uint32_t done = 0; done < times;) {
    std::uint64_t found = 0;
    ASSERT_EQ(owner.post_compare_swap(counter, expected, expected + 1, &found, done),
              Posted::posted);
    ASSERT_TRUE(wait_completion(interface).status.ok());
    if (found == expected) ++done;
    expected = found == expected ? expected + 1 : found;
  }
}

TEST_P(OneSided, ACounterThatAllRanksCountOnLosesNothing) {
  constexpr Rank kRanks = 4;
  Group group(GetParam(), kRanks);
  const std::uint32_t times = group.link(0, 1).properties().shares_memory ? 10'000 : 500;
  SharedBuffer word(8);
  const RemoteBuffer counter = describe_memory(word.bytes().data(), 8);
  std::array<Endpoint*, kRanks> owners{};
  for (Rank rank = 0; rank < kRanks; ++rank) {
    owners[static_cast<std::size_t>(rank)] = &group.link(rank, 0);
    (void)group.link(0, rank);
  }
  group.run([&](Rank rank) {
    count_up(group.at(rank), *owners[static_cast<std::size_t>(rank)], counter, times);
  });
  std::uint64_t total = 0;
  std::memcpy(&total, word.bytes().data(), sizeof total);
  EXPECT_EQ(total, kRanks * times);
}

// The failure of one ends those behind it (work_order_test.cc).
TEST_P(OneSided, CompletionsComeOnceAndOldestFirst) {
  constexpr std::uint64_t kBad = 4;
  Group group(GetParam(), 2);
  SharedBuffer buffer(64);
  const RemoteBuffer remote = describe_memory(buffer.bytes().data(), 64);
  std::vector<std::byte> local(64);
  for (std::uint64_t ticket = 0; ticket < 10; ++ticket) {
    const RemoteBuffer& target =
        ticket == kBad ? RemoteBuffer{PieceForm::view, ~std::uint64_t{0}, 1} : remote;
    ASSERT_EQ(group.link(0, 1).post_write(std::span(local).first(1), target, ticket),
              Posted::posted);
  }
  std::uint64_t next = 0;
  std::array<Completion, 3> some;
  ASSERT_TRUE(group.eventually([&] {
    const std::size_t count = group.at(0).poll(some);
    for (std::size_t i = 0; i < count; ++i, ++next) {
      EXPECT_EQ(some[i].ticket, next);
      EXPECT_EQ(some[i].status.ok(), next < kBad) << next;
    }
    return next == 10;
  }));
  EXPECT_EQ(group.at(0).poll(some), 0u);
  EXPECT_EQ(group.at(0).poll({}), 0u);
}

TEST_P(OneSided, UnpolledCompletionsArePushedBackNotLost) {
  constexpr std::uint64_t kMany = 1'000'000;
  Group group(GetParam(), 2);
  SharedBuffer buffer(8);
  const RemoteBuffer remote = describe_memory(buffer.bytes().data(), 8);
  std::vector<std::byte> local(8);
  std::uint64_t posted = 0;
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t first = posted;
    while (posted < kMany && group.link(0, 1).post_read(local, remote, posted) == Posted::posted)
      ++posted;
    ASSERT_LT(posted, kMany) << "completions have no bound";
    std::uint64_t found = 0;
    EXPECT_EQ(group.link(0, 1).post_write(local, remote, 0), Posted::full);
    EXPECT_EQ(group.link(0, 1).post_compare_swap(remote, 0, 1, &found, 0), Posted::full);
    for (std::uint64_t next = first; next < posted; ++next) {
      EXPECT_EQ(group.wait_completion(0).ticket, next);
    }
  }
}

}  // namespace
}  // namespace weft
