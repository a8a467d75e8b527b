// Interfaces of one process on one device: they share the open device, its protection domain, what
// is registered with it and what it tells. Ranks 0 and 2 are two lanes on one device, and ranks 1
// and 3 on another.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "tests/ib/pair.h"
#include "tests/transport/shared_buffer.h"
#include "verbs/base/base.h"

namespace weft::ib {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr int kReachable = IBV_ACCESS_REMOTE_WRITE;  // by peers

class SharingTest : public testing::Test {
 protected:
  static constexpr Rank kLanes[] = {0, 2};
  static Rank peer_of(Rank lane) { return lane + 1; }

  void open_all() {
    ranks.open_all();
    for (const Rank lane : kLanes) ranks.meet(lane, peer_of(lane));
  }
  // Reads from the lane's peer into `local`.
  Status read(Rank lane, std::span<std::byte> local) {
    const RemoteBuffer remote = describe_memory(source.bytes().data(), local.size());
    EXPECT_EQ(ranks.link(lane, peer_of(lane)).post_read(local, remote, 1), Posted::posted);
    std::array<Completion, 1> completion;
    EXPECT_TRUE(ranks.eventually([&] { return ranks.at(lane).poll(completion) == 1; }));
    return completion[0].status;
  }
  // Keys of what covers this memory on the first device, reachable for peers or not.
  std::vector<std::uint32_t> keys(std::span<const std::byte> memory, int access) {
    std::vector<std::uint32_t> found;
    for (const auto& [key, region] : ranks.fabric.regions) {
      const auto* start = static_cast<const std::byte*>(region->addr);
      const bool covers =
          start <= memory.data() && start + region->length >= memory.data() + memory.size();
      if (covers && (region->allowed & kReachable) == access &&
          region->context->device->name == Ranks::device(0))
        found.push_back(key);
    }
    return found;
  }
  void look(Rank rank) {
    ranks.at(rank).sleep(0, [] { return true; });
  }
  bool is_woken(Rank rank) {
    pollfd ready{must(ranks.at(rank).descriptor()), POLLIN, 0};
    return ::poll(&ready, 1, 0) == 1;
  }
  const Status& failure(Rank lane) { return ranks.link(lane, peer_of(lane)).failure(); }

  Ranks ranks{4, {0}, {}, 2};
  SharedBuffer source{2 * kMiB};
};

TEST_F(SharingTest, TheDeviceIsOpenedOnce) {
  open_all();
  EXPECT_EQ(ranks.fabric.calls("open_device"), 2) << "two devices, four interfaces";
  EXPECT_EQ(ranks.fabric.calls("alloc_pd"), 2);
  for (const Rank rank : {0, 2}) ranks.drop(rank);
  ranks.open(0);
  EXPECT_EQ(ranks.fabric.calls("open_device"), 3) << "the last one had closed it";
}

TEST_F(SharingTest, ATensorIsRegisteredOnce) {
  open_all();
  const SharedBuffer tensor(2 * kMiB);
  for (const Rank lane : kLanes) ASSERT_TRUE(read(lane, tensor.bytes()).ok());
  EXPECT_EQ(keys(tensor.bytes(), 0).size(), 1u);
}

TEST_F(SharingTest, TheEndOfOneInterfaceTakesNothingFromTheOther) {
  open_all();
  const SharedBuffer tensor(2 * kMiB);
  for (const Rank lane : kLanes) ASSERT_TRUE(read(lane, tensor.bytes()).ok());
  ranks.drop(0);
  EXPECT_EQ(keys(tensor.bytes(), 0).size(), 1u);
  const int registered = ranks.fabric.calls("reg_mr");
  EXPECT_TRUE(read(2, tensor.bytes()).ok());
  EXPECT_EQ(ranks.fabric.calls("reg_mr"), registered);
  ASSERT_TRUE(ranks.post(2, 3, 1));
  EXPECT_TRUE(ranks.receive(2, 3, 1));
}

TEST_F(SharingTest, MemoryThatWasGivenBackIsRegisteredAnew) {
  open_all();
  std::byte* before = nullptr;
  std::vector<std::uint32_t> old;
  {
    const SharedBuffer tensor(2 * kMiB);
    before = tensor.bytes().data();
    for (const Rank lane : kLanes) ASSERT_TRUE(read(lane, tensor.bytes()).ok());
    old = keys(tensor.bytes(), 0);
  }
  const SharedBuffer tensor(2 * kMiB);
  ASSERT_EQ(tensor.bytes().data(), before);
  for (const Rank lane : kLanes) ASSERT_TRUE(read(lane, tensor.bytes()).ok());
  const std::vector<std::uint32_t> now = keys(tensor.bytes(), 0);
  ASSERT_EQ(now.size(), 1u);
  EXPECT_NE(now, old);
}

TEST_F(SharingTest, AChunkOfTheHeapIsExposedOnce) {
  open_all();
  const SharedBuffer tensor(64);
  std::vector<std::byte> local(64);
  for (const Rank lane : kLanes) {
    const RemoteBuffer remote = describe_memory(tensor.bytes().data(), 64);
    ASSERT_EQ(ranks.link(peer_of(lane), lane).post_write(local, remote, 1), Posted::posted);
    std::array<Completion, 1> completion;
    ASSERT_TRUE(ranks.eventually([&] { return ranks.at(peer_of(lane)).poll(completion) == 1; }));
    EXPECT_TRUE(completion[0].status.ok());
  }
  EXPECT_EQ(keys(tensor.bytes(), kReachable).size(), 1u);
}

TEST_F(SharingTest, WhatOneLaneDoesNotUseMakesRoomForTheOther) {
  open_all();
  std::vector<std::byte> local(64);
  for (const Rank lane : kLanes) ASSERT_TRUE(read(lane, local).ok());  // their chunks are exposed
  const SharedBuffer idle(16 * kMiB);
  ASSERT_TRUE(read(0, idle.bytes().first(2 * kMiB)).ok());
  const SharedBuffer tensor(2 * kMiB);
  ranks.fabric.limits.memlock = ranks.fabric.locked + kMiB;
  EXPECT_EQ(read(2, tensor.bytes()).code(), Code::exhausted);
  EXPECT_TRUE(is_woken(0)) << "it is asked to give room";
  look(0);
  EXPECT_TRUE(keys(idle.bytes().first(2 * kMiB), 0).empty());
  const Status again = read(2, tensor.bytes());
  EXPECT_TRUE(again.ok()) << again.to_string();
}

// One range of this process stands for memory that only the second lane knows how to export.
TEST_F(SharingTest, AnExporterIsOfItsInterfaceAlone) {
  std::vector<std::byte> exported(4 * kPage);
  ranks.open_all();
  ranks.ib.device_memory.exporter = [&](const void* pointer,
                                        std::size_t) -> Result<std::optional<DmaBuf>> {
    const bool is_known = pointer >= exported.data() && pointer < exported.data() + exported.size();
    if (!is_known) return std::optional<DmaBuf>();
    return std::optional<DmaBuf>(DmaBuf{Fd(::eventfd(0, EFD_CLOEXEC)), 0});
  };
  ranks.ib.device_memory.copy = [](std::span<std::byte> to, const std::byte* from) {
    std::memcpy(to.data(), from, to.size());
    return Status();
  };
  ranks.open(2);
  for (const Rank lane : kLanes) ranks.meet(lane, peer_of(lane));
  const std::span<std::byte> local = std::span(exported).subspan(kPage, kPage);
  ASSERT_TRUE(read(0, local).ok());
  EXPECT_TRUE(ranks.fabric.dma_bufs.empty());
  ASSERT_TRUE(read(2, local).ok());
  EXPECT_EQ(ranks.fabric.dma_bufs.size(), 1u);
  const SharedBuffer tensor(2 * kMiB);
  for (const Rank lane : kLanes) ASSERT_TRUE(read(lane, tensor.bytes()).ok());
  EXPECT_EQ(keys(tensor.bytes(), 0).size(), 1u) << "host memory is shared all the same";
}

TEST_F(SharingTest, EveryInterfaceLearnsOfItsPort) {
  open_all();
  const int before = ranks.fabric.calls("query_gid_table");
  ranks.fabric.raise(Ranks::device(0), IBV_EVENT_GID_CHANGE);
  look(0);
  EXPECT_EQ(ranks.fabric.calls("query_gid_table"), before + 1);
  EXPECT_TRUE(is_woken(2)) << "though the event has been read";
  look(2);
  EXPECT_EQ(ranks.fabric.calls("query_gid_table"), before + 2);
  look(0);
  look(2);
  EXPECT_EQ(ranks.fabric.calls("query_gid_table"), before + 2) << "once each";
}

TEST_F(SharingTest, EventsThatWaitAreBounded) {
  open_all();
  const int before = ranks.fabric.calls("query_gid_table");
  for (int n = 0; n < 100; ++n) {
    ranks.fabric.raise(Ranks::device(0), IBV_EVENT_GID_CHANGE);
    look(0);
  }
  look(2);
  EXPECT_EQ(ranks.fabric.calls("query_gid_table"), before + 101);
}

TEST_F(SharingTest, AFailedQueuePairOrQueueIsItsOwners) {
  for (const ibv_event_type type : {IBV_EVENT_QP_FATAL, IBV_EVENT_SRQ_ERR, IBV_EVENT_CQ_ERR}) {
    open_all();
    const std::uint32_t first = ranks.fabric.reliable_pairs(Ranks::device(0)).front();
    ranks.fabric.raise(first, type);
    look(2);  // the other one reads it
    EXPECT_TRUE(failure(2).ok());
    EXPECT_TRUE(is_woken(0));
    look(0);
    EXPECT_FALSE(failure(0).ok());
    EXPECT_TRUE(failure(2).ok());
    EXPECT_FALSE(is_woken(2)) << "nothing of it concerns the other";
  }
}

TEST_F(SharingTest, AFailedDeviceEndsThePathsOfAll) {
  open_all();
  ranks.fabric.raise(Ranks::device(0), IBV_EVENT_DEVICE_FATAL);
  look(0);
  EXPECT_FALSE(failure(0).ok());
  EXPECT_TRUE(is_woken(2));
  look(2);
  EXPECT_FALSE(failure(2).ok());
}

TEST_F(SharingTest, AFailedDeviceIsOpenedAnew) {
  open_all();
  const int opened = ranks.fabric.calls("open_device");
  ranks.fabric.raise(Ranks::device(0), IBV_EVENT_DEVICE_FATAL);
  ranks.open(0);  // while the other interface holds the failed one, and has not looked
  EXPECT_EQ(ranks.fabric.calls("open_device"), opened + 1);
  ranks.meet(0, 1);
  look(2);
  EXPECT_FALSE(failure(2).ok());
}

TEST_F(SharingTest, AnInterfaceThatComesToAFailedDeviceIsTold) {
  open_all();
  const auto device = must(SharedDevice::open(Fabric::library(), Ranks::device(0)));
  ranks.fabric.raise(Ranks::device(0), IBV_EVENT_DEVICE_FATAL);
  look(0);
  const Fd woken(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  DeviceEvents::Listener late(device->events(), woken.get());
  const DeviceNews news = late.take();
  ASSERT_EQ(news.events.size(), 1u);
  EXPECT_EQ(news.events.front().type, IBV_EVENT_DEVICE_FATAL);
  eventfd_t wakes = 0;
  EXPECT_EQ(eventfd_read(woken.get(), &wakes), 0);
}

// What `child` says in a forked process.
bool in_child(const std::function<bool()>& child) {
  const pid_t process = fork();
  if (process == 0) _exit(child() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Result<std::shared_ptr<SharedDevice>> open_first() {
  return SharedDevice::open(Fabric::library(), Ranks::device(0));
}

TEST_F(SharingTest, AForkedChildOpensItsOwn) {
  open_all();
  const auto ours = must(open_first());
  EXPECT_EQ(must(open_first()), ours);
  EXPECT_TRUE(in_child([&] {
    const auto theirs = open_first();
    return theirs.ok() && theirs.value() != ours;
  }));
  EXPECT_TRUE(in_child([] {
    mark_process();  // it uses Weft
    return in_child([] { return open_first().status().code() == Code::unavailable; });
  }));
  EXPECT_EQ(must(open_first()), ours);
  ASSERT_TRUE(ranks.post(0, 1, 1));
  EXPECT_TRUE(ranks.receive(0, 1, 1));
}

// A thread of its own drives each lane with its peer. Only what they share is touched by both.
class SharingThreads : public SharingTest {
 protected:
  template <typename Predicate>
  bool eventually(Rank lane, Predicate done) {
    return weft::eventually([&] {
      ranks.at(lane).progress();
      ranks.at(peer_of(lane)).progress();
      return done();
    });
  }
  bool receives(Rank lane) {
    Endpoint& end = ranks.link(peer_of(lane), lane);
    if (!eventually(lane, [&] { return end.front(1).header != nullptr || !end.failure().ok(); }))
      return false;
    if (end.front(1).header == nullptr) return false;
    end.release(1);
    return true;
  }
  bool sends_piece(Rank lane, std::span<const std::byte> piece) {
    Endpoint& peer = ranks.link(lane, peer_of(lane));
    const bool is_posted =
        eventually(lane, [&] { return peer.post_piece(1, WireHeader{}, piece) == Posted::posted; });
    return is_posted && receives(lane);
  }
  Status reads(Rank lane, std::span<std::byte> local) {
    const RemoteBuffer remote = describe_memory(source.bytes().data(), local.size());
    if (ranks.link(lane, peer_of(lane)).post_read(local, remote, 1) != Posted::posted)
      return Status(Code::unavailable, "not posted");
    std::array<Completion, 1> completion;
    if (!eventually(lane, [&] { return ranks.at(lane).poll(completion) == 1; }))
      return Status(Code::timed_out, "no end");
    return completion[0].status;
  }
  // Sends from memory that both lanes use, reads into memory of the lane's own that comes and goes,
  // and closes and opens its interfaces.
  void work(Rank lane, std::span<const std::byte> tensor) {
    constexpr std::size_t kPiece = 64 * kPage;
    for (std::size_t turn = 0; turn < 60; ++turn) {
      if (turn % 20 == 0) {
        for (const Rank rank : {lane, peer_of(lane)}) ranks.open(rank);
      }
      const std::size_t at = turn * 7 % (tensor.size() / kPiece) * kPiece;
      ASSERT_TRUE(sends_piece(lane, tensor.subspan(at, kPiece)));
      const SharedBuffer own(kMiB);
      const Status status = reads(lane, own.bytes());
      ASSERT_TRUE(status.ok()) << status.to_string();
      if (turn % 10 == 0) ranks.fabric.raise(Ranks::device(lane % 2), IBV_EVENT_PORT_ACTIVE);
      ranks.at(lane).sleep(0, [] { return true; });
    }
  }
};

TEST_F(SharingThreads, RegisterAndLetGoAtTheSameTime) {
  const SharedBuffer tensor(8 * kMiB);
  std::vector<std::thread> lanes;
  for (const Rank lane : kLanes)
    lanes.emplace_back([this, lane, &tensor] { work(lane, tensor.bytes()); });
  for (std::thread& lane : lanes) lane.join();
}

}  // namespace
}  // namespace weft::ib
