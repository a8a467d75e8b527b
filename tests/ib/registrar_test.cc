// How memory of the caller gets to a device: pinned, on demand, as a dma-buf, or copied. Over the
// script alone: Soft-RoCE has neither paging on demand nor dma-bufs.
#include <sys/eventfd.h>

#include <cerrno>

#include "tests/ib/pair.h"
#include "tests/transport/shared_buffer.h"

namespace weft::ib {
namespace {

constexpr std::uint32_t kOnDemand =
    IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
constexpr std::size_t kPage = 4096;

Status finish(Ranks& ranks) {
  std::array<Completion, 1> completion;
  EXPECT_TRUE(ranks.eventually([&] { return ranks.at(0).poll(completion) == 1; }));
  return completion[0].status;
}

Status read(Ranks& ranks, SharedBuffer& buffer, std::span<std::byte> local) {
  const RemoteBuffer remote = describe_memory(buffer.bytes().data(), local.size());
  EXPECT_EQ(ranks.link(0, 1).post_read(local, remote, 1), Posted::posted);
  return finish(ranks);
}

bool tells(Ranks& ranks, const char* part) {
  return ranks.link(0, 1).describe().find(part) != std::string::npos;
}

TEST(IbOnDemand, WhatCannotBePinnedIsOnDemand) {
  Ranks ranks(2);
  ranks.fabric.limits.on_demand = kOnDemand;
  ranks.open_all();
  ranks.meet(0, 1);
  SharedBuffer buffer(64);
  std::vector<std::byte> local(64);
  ASSERT_TRUE(read(ranks, buffer, local).ok());
  EXPECT_FALSE(tells(ranks, "on demand")) << "pinned, while that is possible";
  ranks.fabric.limits.memlock = ranks.fabric.locked;
  std::vector<std::byte> other(64 * kPage);
  const Status status = read(ranks, buffer, std::span(other).subspan(32 * kPage, 64));
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(tells(ranks, "1 regions on demand"));
}

// The peer's heap is swapped by its device, too.
TEST(IbOnDemand, TheHeapNeedsAtomicsOnDemand) {
  for (const bool atomics : {true, false}) {
    Ranks ranks(2);
    ranks.fabric.limits.on_demand = atomics ? kOnDemand : kOnDemand - IBV_ODP_SUPPORT_ATOMIC;
    ranks.open_all();
    ranks.meet(0, 1);
    SharedBuffer buffer(64);
    ranks.fabric.limits.memlock = ranks.fabric.locked;
    std::vector<std::byte> local(64);
    EXPECT_EQ(read(ranks, buffer, local).ok(), atomics);
  }
}

TEST(IbOnDemand, ADeviceThatLacksAPartOfItHasNone) {
  for (const std::uint32_t missing :
       {IBV_ODP_SUPPORT_SEND, IBV_ODP_SUPPORT_WRITE, IBV_ODP_SUPPORT_READ}) {
    Ranks ranks(2);
    ranks.fabric.limits.on_demand = kOnDemand & ~missing;
    ranks.open_all();
    ranks.meet(0, 1);
    SharedBuffer buffer(64);
    ranks.fabric.limits.memlock = ranks.fabric.locked;
    std::vector<std::byte> local(64);
    const Status status = read(ranks, buffer, local);
    EXPECT_EQ(status.code(), Code::exhausted);
    EXPECT_NE(status.text().find("ulimit -l"), std::string_view::npos) << status.text();
  }
}

TEST(IbOnDemand, ADeviceThatDoesNotAnswerHasNone) {
  Ranks ranks(2);
  ranks.fabric.limits.on_demand = kOnDemand;
  ranks.fabric.refuse("query_device_ex", EOPNOTSUPP);
  ranks.open_all();
  ranks.meet(0, 1);
  SharedBuffer buffer(64);
  ranks.fabric.limits.memlock = ranks.fabric.locked;
  std::vector<std::byte> local(64);
  EXPECT_EQ(read(ranks, buffer, local).code(), Code::exhausted);
}

// One range of this process stands for another device's memory.
class IbDmaBuf : public testing::Test {
 protected:
  void open() {
    ranks.ib.device_memory.exporter = [this](const void* pointer,
                                             std::size_t) -> Result<std::optional<DmaBuf>> {
      if (!is_device(pointer)) return std::optional<DmaBuf>();
      if (!refusal.ok()) return refusal;
      DmaBuf buffer{Fd(::eventfd(0, EFD_CLOEXEC)), 1};
      buffer.offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(pointer) - start());
      return std::optional<DmaBuf>(std::move(buffer));
    };
    ranks.ib.device_memory.copy = [this](std::span<std::byte> to, const std::byte* from) {
      if (is_device(from)) ++copies;
      std::memcpy(to.data(), from, to.size());
      return copy_failure;
    };
    ranks.open_all();
    ranks.meet(0, 1);
  }
  std::byte* start() {
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    return memory.data() + ((at + kPage - 1) / kPage * kPage - at);
  }
  bool is_device(const void* pointer) {
    return pointer >= memory.data() && pointer < memory.data() + memory.size();
  }
  // A piece of the device's memory, as number n.
  std::span<const std::byte> piece(std::uint32_t n) {
    const std::vector<std::byte> text = numbered_payload(n, 10 * kPage);
    std::ranges::copy(text, start() + kPage);
    return {start() + kPage, text.size()};
  }
  void expect_piece_travels() {
    ASSERT_EQ(ranks.link(0, 1).post_piece(1, numbered_header(1), piece(1)), Posted::posted);
    EXPECT_TRUE(ranks.receive(0, 1, 1, 10 * kPage));
  }

  Ranks ranks{2};
  std::vector<std::byte> memory = std::vector<std::byte>(64 * kPage);
  Status refusal;
  Status copy_failure;
  int copies = 0;
};

TEST_F(IbDmaBuf, DeviceMemoryIsSentFromWhereItIs) {
  open();
  expect_piece_travels();
  if (copies != 0) GTEST_SKIP() << "pieces are copied where unmapping cannot be seen";
  ASSERT_EQ(ranks.fabric.dma_bufs.size(), 1u);
  const ScriptedDmaBuf& buffer = ranks.fabric.dma_bufs.front();
  EXPECT_EQ(buffer.offset, kPage);
  EXPECT_EQ(buffer.address, reinterpret_cast<std::uintptr_t>(start()) + kPage);
  EXPECT_EQ(buffer.bytes, 10 * kPage);
  EXPECT_TRUE(tells(ranks, "1 dma-bufs"));
}

TEST_F(IbDmaBuf, HostMemoryIsNot) {
  open();
  SharedBuffer buffer(64);
  std::vector<std::byte> local(64);
  EXPECT_TRUE(read(ranks, buffer, local).ok());
  EXPECT_TRUE(ranks.fabric.dma_bufs.empty());
}

// It may be freed and be another's the next time: nobody tells us.
TEST_F(IbDmaBuf, EveryUseRegistersAnew) {
  open();
  SharedBuffer buffer(64);
  ranks.fabric.works = [](const ScriptedWork& work) {
    const bool ours = work.opcode == IBV_WR_RDMA_WRITE && work.bytes == 8;
    EXPECT_FALSE(ours && work.inlined) << "the processor cannot read it";
    return IBV_WC_SUCCESS;
  };
  for (std::size_t n = 1; n <= 3; ++n) {
    const RemoteBuffer remote = describe_memory(buffer.bytes().data(), 8);
    ASSERT_EQ(ranks.link(0, 1).post_write({start(), 8}, remote, n), Posted::posted);
    EXPECT_TRUE(finish(ranks).ok());
    EXPECT_EQ(ranks.fabric.dma_bufs.size(), n);
  }
}

TEST_F(IbDmaBuf, WhatTheKernelRefusesIsCopied) {
  for (const int error : {EOPNOTSUPP, EINVAL, ENOMEM}) {
    open();
    ranks.fabric.refuse("reg_dmabuf_mr", error);
    expect_piece_travels();
    EXPECT_GT(copies, 0);
    SharedBuffer buffer(64);
    EXPECT_FALSE(read(ranks, buffer, {start(), 64}).ok()) << "nobody reads for the device";
    EXPECT_TRUE(tells(ranks, "refused"));
    EXPECT_TRUE(ranks.link(0, 1).failure().ok());
    ranks.fabric.allow();
  }
}

TEST_F(IbDmaBuf, WhatCannotBeExportedIsCopied) {
  refusal = Status(Code::unavailable, "this device exports nothing");
  open();
  expect_piece_travels();
  EXPECT_GT(copies, 0);
  EXPECT_TRUE(ranks.fabric.dma_bufs.empty());
}

TEST_F(IbDmaBuf, ACopyThatFailsEndsThePathWithTheReason) {
  refusal = Status(Code::unavailable, "this device exports nothing");
  open();
  copy_failure = Status(Code::unavailable, "the device has failed");
  EXPECT_EQ(ranks.link(0, 1).post_piece(1, numbered_header(1), piece(1)), Posted::full);
  EXPECT_EQ(ranks.link(0, 1).failure().text(), "the device has failed");
}

TEST_F(IbDmaBuf, AnOldLibraryHasNone) {
  Library old = Fabric::library();
  old.reg_dmabuf_mr = nullptr;
  ranks.open_all();
  const auto exporter = [](const void*, std::size_t) -> Result<std::optional<DmaBuf>> {
    return std::optional<DmaBuf>(DmaBuf{});
  };
  IbOptions ib;
  ib.device = Ranks::device(0);
  ib.device_memory = {exporter, [](std::span<std::byte>, const std::byte*) { return Status(); }};
  const auto alone = must(IbInterface::open(old, 0, ranks.options, ib, nullptr));
  SharedBuffer buffer(64);
  Endpoint& peer = *must(alone->connect(1, ranks.at(1).address()));
  const RemoteBuffer remote = describe_memory(buffer.bytes().data(), 64);
  ASSERT_EQ(peer.post_read({start(), 64}, remote, 1), Posted::posted);
  std::array<Completion, 1> completion;
  ASSERT_TRUE(ranks.eventually([&] {
    alone->progress();
    return alone->poll(completion) == 1;
  }));
  EXPECT_NE(completion[0].status.text().find("ibv_reg_dmabuf_mr"), std::string_view::npos);
}

TEST_F(IbDmaBuf, AnExporterWithoutACopyIsRefused) {
  ranks.ib.device_memory.exporter = [](const void*, std::size_t) -> Result<std::optional<DmaBuf>> {
    return std::optional<DmaBuf>();
  };
  EXPECT_EQ(ranks.try_open(0).status().code(), Code::invalid_argument);
}

TEST(IbPieces, OfMemoryThatWasNamedFirstAreRegisteredTogether) {
  IbOptions ib;
  ib.registration_threads = 2;
  Ranks ranks(2, {0}, ib);
  ranks.open_all();
  ranks.meet(0, 1);
  constexpr std::size_t kPiece = std::size_t{256} << 10;
  const std::vector<std::byte> tensor(256 * kPiece);
  Endpoint& peer = ranks.link(0, 1);
  (void)peer.expect_pieces(tensor, PieceMemory::host);
  const int registered = ranks.fabric.calls("reg_mr");
  for (std::size_t n = 0; n < 256; ++n) {
    const std::span<const std::byte> piece(tensor.data() + n * kPiece, kPiece);
    ASSERT_TRUE(ranks.eventually(
        [&] { return peer.post_piece(1, WireHeader{}, piece) == Posted::posted; }));
    ASSERT_TRUE(ranks.eventually([&] { return ranks.link(1, 0).front(1).header != nullptr; }));
    ranks.link(1, 0).release(1);
  }
  // The rings of both sides, and nothing for each piece.
  EXPECT_LE(ranks.fabric.calls("reg_mr") - registered, 4);
}

}  // namespace
}  // namespace weft::ib
