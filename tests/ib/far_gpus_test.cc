// Operations of ranks on different machines whose tensors are on GPUs, over RDMA ports that send them from
// where they are and write what arrives to GPU memory: whole operations on scripted verbs.
#include "tests/cuda/far_gpus.h"

#include "tests/ib/gpu_memory.h"
#include "tests/ib/scripted_device.h"
#include "verbs/ib/interface.h"

namespace weft::ib {
namespace {

class IbFarGpus : public FarGpus {
 protected:
  void open(ReceiveBuffers receive_buffers, int rails = 1) {
    const DeviceMemory device = memory_of_gpus(receive_buffers);
    open_all(
        "ib",
        [this, device](Rank rank, int rail, const InterfaceOptions& own, AddressResolver resolver) {
          IbOptions ib;
          ib.device = name_of(rank, rail);
          ib.piece_bytes = kPieceBytes;
          ib.device_memory = device;
          fabric_.add_device(ib.device, rank + 1, {rail});
          return IbInterface::open(Fabric::library(), rank, own, ib, std::move(resolver));
        },
        rails);
  }
  static std::string name_of(Rank rank, int rail) {
    return "scripted" + std::to_string(rank) + "-" + std::to_string(rail);
  }
  void TearDown() override {
    ends_.clear();
    EXPECT_EQ(fabric_.leaks(), "");
    EXPECT_EQ(fabric_.violations(), "");
    FarGpus::TearDown();
  }

  static constexpr std::size_t kSent = 2 * kRanks;  // registered for sending: inputs and outputs
  Fabric fabric_;
};

// The host has no part in it: no copies, and what arrives is summed where it lies.
TEST_F(IbFarGpus, GoFromGpuToGpu) {
  open(ReceiveBuffers::made);
  const GpuUsage before = gpu_usage();
  const int flushes = fake.flushes();
  run();
  const GpuUsage after = gpu_usage();
  EXPECT_EQ(after.with_aliases - before.with_aliases, kRanks) << describe_gpu_memory();
  EXPECT_EQ(after.bytes_out, before.bytes_out);
  EXPECT_EQ(after.bytes_in, before.bytes_in);
  EXPECT_EQ(fabric_.dma_bufs.size(), kSent + static_cast<std::size_t>(kRanks * (kRanks - 1)));
  EXPECT_GT(fake.flushes(), flushes + kRanks * (kRanks - 1)) << "before each sum";
}

// Each setting closes its own way.
TEST_F(IbFarGpus, DoNotNeedCudaIpc) {
  open(ReceiveBuffers::made);
  gpu_options_.shares = false;
  const GpuUsage before = gpu_usage();
  run();
  EXPECT_EQ(gpu_usage().with_aliases - before.with_aliases, kRanks) << describe_gpu_memory();
  gpu_options_ = {};
  gpu_options_.lends = false;
  run();
  EXPECT_EQ(gpu_usage().with_aliases - before.with_aliases, kRanks);
  EXPECT_NE(describe_gpu_memory().find("WEFT_GPU_RDMA is off"), std::string::npos);
}

// What has come over a rail that fails is kept in host memory, and the rest goes over the other.
TEST_F(IbFarGpus, ArriveWholeIfARailFails) {
  open(ReceiveBuffers::made, 2);
  run();
  constexpr int kGoWell = 20;
  int writes = 0;
  fabric_.works = [&](const ScriptedWork& work) {
    const bool is_piece = work.device.ends_with("-0") && work.bytes >= kPieceBytes / 2;
    return is_piece && ++writes > kGoWell ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS;
  };
  for (int i = 0; i < 3; ++i) run();
  EXPECT_GT(writes, kGoWell);
  fabric_.works = nullptr;
}

TEST_F(IbFarGpus, ArriveAtTheHostWithoutReceiveBuffers) {
  open(ReceiveBuffers::none);
  const GpuUsage before = gpu_usage();
  run();
  EXPECT_EQ(gpu_usage().with_aliases - before.with_aliases, kRanks) << describe_gpu_memory();
  EXPECT_EQ(fabric_.dma_bufs.size(), kSent);
}

}  // namespace
}  // namespace weft::ib
