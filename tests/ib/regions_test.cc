// Regions over RDMA: one registration for each device, without a question to the owner, until the
// last interface that exposed it has withdrawn it. Ranks 0 and 2 are two lanes on one device, and
// ranks 1 and 3 on another.
#include <algorithm>
#include <array>

#include "tests/ib/pair.h"
#include "tests/transport/shared_buffer.h"

namespace weft::ib {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class IbRegions : public testing::Test {
 protected:
  void SetUp() override {
    ranks.open_all();
    ranks.meet(0, 1);
    ranks.meet(2, 3);
  }
  Status end(Rank rank) {
    std::array<Completion, 1> completion;
    EXPECT_TRUE(ranks.eventually([&] { return ranks.at(rank).poll(completion) == 1; }));
    return completion[0].status;
  }
  // Registrations of all this memory for peers, on the device of ranks 0 and 2.
  std::size_t registrations() {
    return static_cast<std::size_t>(std::ranges::count_if(ranks.fabric.regions, [&](auto& known) {
      const ibv_mr& region = *known.second;
      return region.addr == memory.data() && region.length == memory.size() &&
             (known.second->allowed & IBV_ACCESS_REMOTE_ATOMIC) != 0;
    }));
  }

  Ranks ranks{4, {0}, {}, 2};
  std::vector<std::byte> memory = std::vector<std::byte>(5 * kMiB);
};

TEST_F(IbRegions, AreRegisteredOnceForAllLanes) {
  const std::size_t locked = ranks.fabric.locked;
  const Region first = must(ranks.at(0).expose(memory));
  const Region second = must(ranks.at(2).expose(memory));
  EXPECT_EQ(registrations(), 1u);
  EXPECT_EQ(ranks.fabric.locked, locked + memory.size());
  ranks.at(0).withdraw(first.number);
  EXPECT_EQ(registrations(), 1u) << "another lane exposes it";
  ranks.at(2).withdraw(second.number);
  EXPECT_EQ(registrations(), 0u);
  EXPECT_EQ(ranks.fabric.locked, locked);
}

TEST_F(IbRegions, EndWithTheirInterface) {
  (void)must(ranks.at(0).expose(memory));
  ranks.drop(0);
  EXPECT_EQ(registrations(), 0u);
}

TEST_F(IbRegions, AskTheOwnerNothing) {
  const Region region = must(ranks.at(0).expose(memory));
  Endpoint& link = ranks.link(1, 0);
  const std::uint32_t number = must(link.import_region(region.key));
  int sends = 0;
  ranks.fabric.works = [&](const ScriptedWork& work) {
    sends += work.opcode == IBV_WR_SEND ? 1 : 0;
    return IBV_WC_SUCCESS;
  };
  const std::vector<std::byte> sent = numbered_payload(1, memory.size());
  ASSERT_EQ(link.post_write(sent, {PieceForm::region, 0, sent.size(), number}, 1), Posted::posted);
  EXPECT_TRUE(end(1).ok());
  ranks.fabric.works = nullptr;
  EXPECT_EQ(memory, sent);
  EXPECT_EQ(sends, 0);
}

TEST_F(IbRegions, ThatCannotBeLockedSayWhatToSet) {
  ranks.fabric.limits.memlock = ranks.fabric.locked + memory.size() - 1;
  const Status status = ranks.at(0).expose(memory).status();
  EXPECT_EQ(status.code(), Code::exhausted) << status.to_string();
  EXPECT_NE(status.text().find("ulimit -l"), std::string_view::npos) << status.text();
  EXPECT_EQ(registrations(), 0u);
  ranks.fabric.limits.memlock += 1;
  EXPECT_TRUE(ranks.at(0).expose(memory).ok());
}

TEST_F(IbRegions, ThatEndedEndThePathWithTheReason) {
  const Region region = must(ranks.at(0).expose(memory));
  Endpoint& link = ranks.link(1, 0);
  const std::uint32_t number = must(link.import_region(region.key));
  ranks.at(0).withdraw(region.number);
  const std::vector<std::byte> local(8, std::byte{1});
  ASSERT_EQ(link.post_write(local, {PieceForm::region, 0, 8, number}, 1), Posted::posted);
  const Status status = end(1);
  EXPECT_EQ(status.code(), Code::no_permission) << status.to_string();
  EXPECT_NE(status.text().find("given back"), std::string_view::npos) << status.text();
  EXPECT_EQ(memory[0], std::byte{0});
  EXPECT_FALSE(link.failure().ok());
}

// Only what the device had and did not end may still arrive.
TEST_F(IbRegions, WorkLingersIfItsPathFailedWithItUnderWay) {
  const Region region = must(ranks.at(0).expose(memory));
  const std::vector<std::byte> local(8, std::byte{1});
  for (const bool is_under_way : {false, true}) {
    const Rank rank = is_under_way ? 1 : 3;
    Endpoint& link = ranks.link(rank, 0);
    const std::uint32_t number = must(link.import_region(region.key));
    const RemoteBuffer remote{PieceForm::region, 0, 8, number};
    ASSERT_EQ(link.post_write(local, remote, 1), Posted::posted);
    ASSERT_TRUE(end(rank).ok());
    ranks.fabric.hold(true);
    if (is_under_way) {
      ASSERT_EQ(link.post_write(local, remote, 2), Posted::posted);
      ranks.turn();
    }
    EXPECT_FALSE(link.work_may_linger());
    link.abandon(Status(Code::unavailable, "given up by the test", 0));
    EXPECT_EQ(link.work_may_linger(), is_under_way);
    ASSERT_EQ(link.post_write(local, remote, 3), Posted::posted) << "nothing of this leaves";
    EXPECT_EQ(link.work_may_linger(), is_under_way);
    ranks.fabric.hold(false);
  }
}

}  // namespace
}  // namespace weft::ib
