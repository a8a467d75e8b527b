// One-sided work over RDMA: what a failure on our side does to the work behind it, and which
// requests the device has to hold back so that work takes effect in the order of posting.
#include <algorithm>
#include <cerrno>

#include "tests/ib/pair.h"
#include "tests/transport/shared_buffer.h"

namespace weft::ib {
namespace {

// The next `count` completions of rank 0.
std::vector<Completion> completions(Ranks& ranks, std::size_t count) {
  std::vector<Completion> all(count);
  std::size_t come = 0;
  EXPECT_TRUE(ranks.eventually([&] {
    come += ranks.at(0).poll(std::span(all).subspan(come));
    return come == count;
  }));
  return all;
}

// Three chunks of the heap at least, of which the last is known to rank 0.
class IbOrder : public testing::Test {
 protected:
  IbOrder() : ranks_(2), buffer_(4 * kChunkBytes) {
    ranks_.open_all();
    ranks_.meet(0, 1);
    EXPECT_EQ(peer().post_read(word_, word(), 0), Posted::posted);
    EXPECT_TRUE(completions(ranks_, 1).front().status.ok());
  }
  [[nodiscard]] Endpoint& peer() { return ranks_.link(0, 1); }
  [[nodiscard]] std::span<std::byte> last() { return buffer_.bytes().last(8); }
  [[nodiscard]] RemoteBuffer first(std::size_t bytes) {
    return describe_memory(buffer_.bytes().data(), bytes);
  }
  [[nodiscard]] RemoteBuffer word() { return describe_memory(last().data(), 8); }
  [[nodiscard]] bool is_word_untouched() {
    return std::ranges::all_of(last(), [](std::byte byte) { return byte == std::byte{0}; });
  }

  Ranks ranks_;
  SharedBuffer buffer_;
  std::array<std::byte, 8> word_{};
  const std::array<std::byte, 8> flag_{std::byte{1}};
};

TEST_F(IbOrder, NothingIsSentBehindMemoryThatThePeerCannotRegister) {
  const std::vector<std::byte> data(64, std::byte{7});
  ranks_.fabric.refuse("reg_mr", ENOMEM);
  ASSERT_EQ(peer().post_write(data, first(64), 1), Posted::posted);
  ASSERT_EQ(peer().post_write(flag_, word(), 2), Posted::posted);
  const std::vector<Completion> ends = completions(ranks_, 2);
  EXPECT_EQ(ends[0].status.code(), Code::exhausted) << ends[0].status.to_string();
  EXPECT_EQ(ends[1].status.code(), Code::unavailable) << ends[1].status.to_string();
  EXPECT_NE(ends[1].status.text().find("ulimit -l"), std::string_view::npos)
      << "the reason is that of the work before: " << ends[1].status.text();
  EXPECT_TRUE(is_word_untouched());
  ranks_.fabric.allow();
  ASSERT_EQ(peer().post_write(data, first(64), 3), Posted::posted);
  ASSERT_EQ(peer().post_write(flag_, word(), 4), Posted::posted);
  for (const Completion& end : completions(ranks_, 2)) EXPECT_TRUE(end.status.ok());
  EXPECT_FALSE(is_word_untouched());
}

TEST_F(IbOrder, NothingIsSentBehindMemoryOfOursThatCannotBeRegistered) {
  const std::vector<std::byte> data(100'000, std::byte{7});
  ranks_.fabric.refuse("reg_mr", ENOMEM);
  ASSERT_EQ(peer().post_write(data, first(data.size()), 1), Posted::posted);
  ASSERT_EQ(peer().post_write(flag_, word(), 2), Posted::posted);
  for (const Completion& end : completions(ranks_, 2)) EXPECT_FALSE(end.status.ok()) << end.ticket;
  EXPECT_TRUE(is_word_untouched());
}

// A device may answer a read after it has done a write that stands behind it.
TEST_F(IbOrder, WhatChangesMemoryWaitsForReadsAndSwapsBeforeIt) {
  std::vector<std::pair<ibv_wr_opcode, bool>> sent;
  ranks_.fabric.works = [&](const ScriptedWork& work) {
    if (work.device == "scripted0") sent.emplace_back(work.opcode, work.fenced);
    return IBV_WC_SUCCESS;
  };
  std::uint64_t found = 0;
  ranks_.fabric.hold(true);
  ASSERT_EQ(peer().post_write(flag_, word(), 1), Posted::posted);
  ASSERT_EQ(peer().post_read(word_, word(), 2), Posted::posted);
  ASSERT_EQ(peer().post_read(word_, word(), 3), Posted::posted);
  ASSERT_EQ(peer().post_write(flag_, word(), 4), Posted::posted);
  ASSERT_EQ(peer().post_compare_swap(word(), 1, 2, &found, 5), Posted::posted);
  ranks_.turn();
  ranks_.fabric.hold(false);
  (void)completions(ranks_, 5);
  ASSERT_EQ(peer().post_write(flag_, word(), 6), Posted::posted);
  (void)completions(ranks_, 1);
  ranks_.fabric.works = nullptr;  // the ranks close after `sent` is gone
  const std::vector<std::pair<ibv_wr_opcode, bool>> expected = {
      {IBV_WR_RDMA_WRITE, false}, {IBV_WR_RDMA_READ, false},         {IBV_WR_RDMA_READ, false},
      {IBV_WR_RDMA_WRITE, true},  {IBV_WR_ATOMIC_CMP_AND_SWP, true}, {IBV_WR_RDMA_WRITE, false}};
  EXPECT_EQ(sent, expected);
}

}  // namespace
}  // namespace weft::ib
