// GPU memory that a device sends from where it is (GPUDirect RDMA), over the script and the fake of
// the driver: addresses of the heap stand for it.
#include <cerrno>
#include <cstring>

#include "tests/cuda/fake_library.h"
#include "tests/ib/gpu_memory.h"
#include "tests/ib/pair.h"
#include "verbs/cuda/cuda.h"

namespace weft::ib {
namespace {

constexpr std::size_t kBytes = std::size_t{200} << 10;

class IbGpus : public testing::Test {
 protected:
  IbGpus() {
    fake.reset();
    (void)Memory::allocate(1).value();  // the heap
  }
  // `receive_buffers`: the device writes what comes from GPUs to GPU memory.
  void open(ReceiveBuffers receive_buffers = ReceiveBuffers::none) {
    ranks.ib.device_memory = memory_of_gpus(receive_buffers);
    ranks.open_all();
    ranks.meet(0, 1);
  }

  // `from`: where in the GPU's allocation the memory begins.
  static DeviceAlias alias(const GpuArray<std::byte>& gpu, std::size_t from, std::size_t bytes) {
    const GpuMemory memory = *gpu_memory(gpu.data());
    EXPECT_TRUE(offer_gpu(memory).ok());
    Result<DeviceAlias> made = DeviceAlias::of(memory, gpu.data() + from, bytes);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *std::move(made) : DeviceAlias();
  }
  Endpoint& link() { return ranks.link(0, 1); }
  // Sends these bytes as a piece, and gives what has arrived.
  std::vector<std::byte> send(std::span<const std::byte> piece) {
    WireHeader header;
    header.form = PieceForm::payload;
    header.bytes = static_cast<std::uint32_t>(piece.size());
    EXPECT_TRUE(
        ranks.eventually([&] { return link().post_piece(1, header, piece) == Posted::posted; }));
    Notice notice;
    EXPECT_TRUE(ranks.eventually([&] {
      notice = ranks.link(1, 0).front(1);
      return notice.header != nullptr;
    }));
    if (notice.header == nullptr) return {};
    lands_on_gpu = is_in_device_memory(notice);
    EXPECT_EQ(is_own_alias(notice.payload), lands_on_gpu);
    std::vector<std::byte> arrived(piece.size());
    const Status copied = ranks.link(1, 0).copy_payload(arrived, notice);
    EXPECT_TRUE(copied.ok()) << copied.to_string();
    ranks.link(1, 0).release(1);
    return arrived;
  }
  static std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> made(bytes);
    for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(i * 7 + seed);
    return made;
  }

  const FakeDriver& fake = FakeDriver::get();
  Ranks ranks{2};
  bool lands_on_gpu = false;  // what send() has sent
};

TEST_F(IbGpus, AreSentFromWhereTheyAreAndRegisteredOnce) {
  open();
  constexpr std::size_t kFrom = 5000;  // within a page
  GpuArray<std::byte> gpu(kFrom + 2 * kBytes, 0);
  const std::vector<std::byte> all = pattern(kFrom + 2 * kBytes, 1);
  gpu.set(all);
  const DeviceAlias here = alias(gpu, kFrom, 2 * kBytes);
  const GpuCounts before = gpu_counts();
  const std::span<const std::byte> memory(here.address(), 2 * kBytes);
  const Status expected = link().expect_pieces(memory, PieceMemory::device);
  ASSERT_TRUE(expected.ok()) << expected.to_string();
  for (const std::size_t at : {std::size_t{0}, kBytes}) {
    const std::vector<std::byte> arrived = send(memory.subspan(at, kBytes));
    EXPECT_EQ(std::memcmp(arrived.data(), all.data() + kFrom + at, kBytes), 0) << at;
  }
  EXPECT_EQ(ranks.fabric.dma_bufs.size(), 1U);
  EXPECT_EQ(gpu_counts().bytes_out, before.bytes_out) << "the host has no part in it";
}

// The device never looks where the processor cannot.
TEST_F(IbGpus, SmallPiecesAreNotPutIntoTheRequest) {
  open();
  GpuArray<std::byte> gpu(64, 0);
  gpu.set(pattern(64, 3));
  const DeviceAlias here = alias(gpu, 0, 64);
  ASSERT_TRUE(link().expect_pieces({here.address(), 64}, PieceMemory::device).ok());
  EXPECT_EQ(send({here.address(), 64}), pattern(64, 3));
}

// The addresses are given out again, for other memory.
TEST_F(IbGpus, ARegistrationEndsWithItsStandIn) {
  open();
  const std::byte* first = nullptr;
  for (const unsigned seed : {1U, 2U, 3U}) {
    GpuArray<std::byte> gpu(kBytes, 0);
    gpu.set(pattern(kBytes, seed));
    const DeviceAlias here = alias(gpu, 0, kBytes);
    if (first == nullptr) first = here.address();
    EXPECT_EQ(here.address(), first) << "the test is about the same addresses";
    EXPECT_EQ(send({here.address(), kBytes}), pattern(kBytes, seed));
  }
  EXPECT_EQ(ranks.fabric.dma_bufs.size(), 3U);
}

TEST_F(IbGpus, AKernelWithoutRelaxedOrderingIsAskedAgain) {
  open();
  ranks.fabric.refuse("reg_dmabuf_mr", EINVAL, 0, 1);
  GpuArray<std::byte> gpu(kBytes, 0);
  const DeviceAlias here = alias(gpu, 0, kBytes);
  EXPECT_TRUE(link().expect_pieces({here.address(), kBytes}, PieceMemory::device).ok());
  EXPECT_EQ(ranks.fabric.dma_bufs.size(), 1U);
  EXPECT_EQ(ranks.fabric.calls("reg_mr_iova"), 0);
}

TEST_F(IbGpus, WithoutDmaBufsPeermemIsTried) {
  open();
  fake.fail("cuMemGetHandleForAddressRange", 801, 1'000);
  GpuArray<std::byte> gpu(kBytes, 0);
  const DeviceAlias here = alias(gpu, 0, kBytes);
  const Status status = link().expect_pieces({here.address(), kBytes}, PieceMemory::device);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(ranks.fabric.calls("reg_mr_iova"), 1);
}

TEST_F(IbGpus, WhatIsRefusedHasAReasonAndIsCopied) {
  open();
  fake.fail("cuMemGetHandleForAddressRange", 801, 1'000);
  ranks.fabric.refuse("reg_mr_iova", EFAULT);
  GpuArray<std::byte> gpu(kBytes, 0);
  gpu.set(pattern(kBytes, 9));
  const DeviceAlias here = alias(gpu, 0, kBytes);
  const Status status = link().expect_pieces({here.address(), kBytes}, PieceMemory::device);
  EXPECT_FALSE(status.ok());
  for (const char* word : {"GPU 0", "dma-buf", "nvidia-peermem"})
    EXPECT_NE(status.text().find(word), std::string_view::npos) << status.to_string();
  EXPECT_EQ(send({here.address(), kBytes}), pattern(kBytes, 9));
}

TEST_F(IbGpus, MemoryOfTheHostIsAsAlways) {
  open();
  std::vector<std::byte> host(kBytes);
  EXPECT_FALSE(link().expect_pieces(host, PieceMemory::device).ok());
  const Memory heap = Memory::allocate(kBytes).value();
  EXPECT_EQ(send({heap.as<std::byte>(), kBytes}), std::vector<std::byte>(kBytes));
  EXPECT_TRUE(ranks.fabric.dma_bufs.empty());
}

// From GPU to GPU, in slots that are used again; small ones and those of the host go as always.
TEST_F(IbGpus, PiecesLandInMemoryOfTheReceiversGpu) {
  open(ReceiveBuffers::made);
  GpuArray<std::byte> gpu(kBytes, 0);
  const DeviceAlias here = alias(gpu, 0, kBytes);
  ASSERT_TRUE(link().expect_pieces({here.address(), kBytes}, PieceMemory::device).ok());
  const GpuCounts before = gpu_counts();
  for (unsigned n = 0; n < 10; ++n) {
    gpu.set(pattern(kBytes, n));
    EXPECT_EQ(send({here.address(), kBytes}), pattern(kBytes, n));
    EXPECT_TRUE(lands_on_gpu);
    const Memory heap = Memory::allocate(kBytes).value();
    EXPECT_EQ(send({heap.as<std::byte>(), kBytes}), std::vector<std::byte>(kBytes));
    EXPECT_FALSE(lands_on_gpu);
  }
  EXPECT_NE(ranks.link(1, 0).describe().find("arrives in GPU memory"), std::string::npos);
  EXPECT_EQ(gpu_counts().bytes_in, before.bytes_in) << "the device brings it";
  EXPECT_EQ(ranks.fabric.dma_bufs.size(), 2U) << "what is sent, and the receive buffer";
}

// They go to the host until there is such memory; it is asked for again from time to time.
TEST_F(IbGpus, WithoutAReceiveBufferTheyGoToTheHost) {
  open(ReceiveBuffers::made);
  GpuArray<std::byte> gpu(kBytes, 0);
  gpu.set(pattern(kBytes, 4));
  const DeviceAlias here = alias(gpu, 0, kBytes);
  fake.fail("cuFlushGPUDirectRDMAWrites", 999, 1);
  EXPECT_EQ(send({here.address(), kBytes}), pattern(kBytes, 4));
  EXPECT_FALSE(lands_on_gpu);
  EXPECT_NE(ranks.link(1, 0).describe().find("arrives at the host: GPU 0: flush what"),
            std::string::npos)
      << ranks.link(1, 0).describe();
  for (int n = 0; !lands_on_gpu && n < 100; ++n)
    EXPECT_EQ(send({here.address(), kBytes}), pattern(kBytes, 4));
  EXPECT_TRUE(lands_on_gpu);
}

// The GPU that has the memory is flushed, not the one that reads; a copy of the memory needs it, too.
TEST_F(IbGpus, WhatArrivedIsSettledWhereItLies) {
  const GpuArray<std::byte> owner(kBytes, 0), reader(kBytes, 1);
  const DeviceAlias here = alias(owner, 0, kBytes);
  const GpuMemory other = *gpu_memory(reader.data());
  const int for_all = fake.flushes_for_all(0);
  const Result<std::optional<Behind>> there = behind(other, here.address(), kBytes);
  ASSERT_TRUE(there.ok() && there->has_value()) << there.status().to_string();
  ASSERT_EQ((*there)->device, other.device);
  EXPECT_TRUE(flush_rdma_writes(here.address(), **there).ok());
  EXPECT_EQ(fake.flushes_for_all(0), for_all + 1);
  EXPECT_EQ(fake.flushes_for_all(1), 0);
  const int flushes = fake.flushes();
  std::vector<std::byte> copy(kBytes);
  EXPECT_TRUE(copy_for_devices(copy, here.address()).ok());
  EXPECT_EQ(fake.flushes(), flushes + 1);
}

TEST_F(IbGpus, AReceiveBufferThatCannotBeRegisteredIsNone) {
  open(ReceiveBuffers::made);
  GpuArray<std::byte> gpu(kBytes, 0);
  gpu.set(pattern(kBytes, 5));
  const DeviceAlias here = alias(gpu, 0, kBytes);
  ASSERT_TRUE(link().expect_pieces({here.address(), kBytes}, PieceMemory::device).ok());
  ranks.fabric.refuse("reg_dmabuf_mr", ENOMEM);
  ranks.fabric.refuse("reg_mr_iova", ENOMEM);
  EXPECT_EQ(send({here.address(), kBytes}), pattern(kBytes, 5));
  EXPECT_FALSE(lands_on_gpu);
}

// While a stream is held the driver would wait for it.
TEST_F(IbGpus, NoReceiveBufferIsMadeWhileAStreamIsHeld) {
  open(ReceiveBuffers::made);
  GpuArray<std::byte> gpu(kBytes, 0);
  gpu.set(pattern(kBytes, 6));
  const DeviceAlias here = alias(gpu, 0, kBytes);
  constexpr std::int64_t kLongNs = 60'000'000'000;
  {
    const std::unique_ptr<GpuGate> gate =
        make_gpu_gate(*gpu_memory(gpu.data()), now_ns() + kLongNs).value();
    EXPECT_EQ(ReceiveBuffer::make(kBytes).status().code(), Code::unavailable);
    EXPECT_EQ(send({here.address(), kBytes}), pattern(kBytes, 6));
    EXPECT_FALSE(lands_on_gpu);
  }
  EXPECT_TRUE(ReceiveBuffer::make(kBytes).ok());
}

}  // namespace
}  // namespace weft::ib
