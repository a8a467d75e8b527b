// Operations of ranks on different machines whose tensors are on GPUs, over simulated networks that send
// such memory from where it is, or that do not.
#include "tests/cuda/far_gpus.h"
#include "tests/sim/network.h"

namespace weft {
namespace {

class SimGpus : public FarGpus {
 protected:
  void open(bool network_reads_gpus) {
    SimOptions options{7, 5, kPieceBytes};
    if (network_reads_gpus) {
      options.read = [this](std::span<std::byte> to, const std::byte* from) {
        if (is_own_alias(from)) ++pieces_of_gpus_;
        const Status read = copy_from_behind(to, from);
        EXPECT_TRUE(read.ok()) << read.to_string();
      };
    }
    network_ = std::make_unique<SimNetwork>(options);
    open_all("sim", [this](Rank rank, int, const InterfaceOptions& own, AddressResolver) {
      return Result<std::unique_ptr<Interface>>(network_->open(rank, own, "rail"));
    });
  }
  void TearDown() override {
    ends_.clear();
    FarGpus::TearDown();
  }

  std::unique_ptr<SimNetwork> network_;
  int pieces_of_gpus_ = 0;
};

TEST_F(SimGpus, AreSentFromWhereTheyAre) {
  open(true);
  const GpuUsage before = gpu_usage();
  run();
  EXPECT_EQ(gpu_usage().with_aliases - before.with_aliases, kRanks) << describe_gpu_memory();
  constexpr int kPieces =
      static_cast<int>((kCount * sizeof(float) + kPieceBytes - 1) / kPieceBytes);
  EXPECT_EQ(pieces_of_gpus_, kRanks * (kRanks - 1) * kPieces);
}

TEST_F(SimGpus, GoThroughBlocksWhereTheNetworkCannotSendThem) {
  open(false);
  const GpuUsage before = gpu_usage();
  run();
  EXPECT_EQ(gpu_usage().with_aliases, before.with_aliases);
  EXPECT_NE(describe_gpu_memory().find("is on another machine, and this transport sends "
                                       "host memory alone"),
            std::string::npos)
      << describe_gpu_memory();
}

}  // namespace
}  // namespace weft
