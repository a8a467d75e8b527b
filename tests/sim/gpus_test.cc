// Operations of ranks on different machines whose tensors are on GPUs, on the twin of the driver and over
// simulated networks that send such memory from where it is, or that do not.
#include <map>
#include <memory>
#include <string>

#include "engine/gpu/gpu.h"
#include "engine/gpu_kernels/gpu_kernels.h"
#include "tests/cuda/twin_library.h"
#include "tests/sim/network.h"
#include "verbs/bond/bond.h"

namespace weft {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kCount = 300'000;  // of floats: more than a MiB
constexpr std::size_t kPieceBytes = 64 << 10;
constexpr std::uint32_t kChannels = 2;
constexpr int kMostTurns = 2'000'000;

std::vector<float> values_of(Rank rank) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    values[i] = static_cast<float>((i * 3 + static_cast<std::size_t>(rank) * 11) % 64);
  return values;
}

class FarGpus : public testing::Test {
 protected:
  void SetUp() override {
    twin.reset();
    const GpuArray<float> any(1, 0);
    const Status kernels = GpuKernels::of(*gpu_memory(any.data())).status();
    if (kernels.text().find("no nvcc") != std::string_view::npos) GTEST_SKIP() << kernels.text();
  }
  void TearDown() override { twin.reset(); }

  void open(bool network_reads_gpus) {
    SimOptions options{7, 5, kPieceBytes};
    if (network_reads_gpus) {
      options.read = [this](std::span<std::byte> to, const std::byte* from) {
        if (is_own_stand_in(from)) ++pieces_of_gpus_;
        const Status read = copy_from_behind(to, from);
        EXPECT_TRUE(read.ok()) << read.to_string();
      };
    }
    network_ = std::make_unique<SimNetwork>(options);
    for (Rank rank = 0; rank < kRanks; ++rank) {
      InterfaceOptions own;
      own.channels = kChannels;
      own.machine = static_cast<std::uint64_t>(rank) + 1;
      BondOptions bond;
      bond.rank = rank;
      bond.channels = kChannels;
      std::vector<BondMember> rails;
      rails.push_back({"sim", "rail", [=, this](AddressResolver) {
                         return Result<std::unique_ptr<Interface>>(
                             network_->open(rank, own, "rail"));
                       }});
      ends_[rank] = open_bond(bond, nullptr, std::move(rails), [this](Rank peer) {
                      return Result(ends_[peer]->address());
                    }).value();
    }
  }

  // A neighbor_allreduce of all with all, turn by turn.
  void run() {
    struct Part {
      std::unique_ptr<GpuArray<float>> x, y;
      Request request;
      Plan plan;
      std::vector<Contact> contacts = std::vector<Contact>(kRanks);
      std::vector<Contact*> peers;
      std::vector<double> weights;
      std::shared_ptr<GpuStage> stage;
      std::unique_ptr<Execution> execution;
      bool has_ended = false;
    };
    std::vector<Part> parts(kRanks);
    for (Rank rank = 0; rank < kRanks; ++rank) {
      Part& part = parts[static_cast<std::size_t>(rank)];
      part.x = std::make_unique<GpuArray<float>>(kCount, rank);
      part.y = std::make_unique<GpuArray<float>>(kCount, rank);
      part.x->set(values_of(rank));
      View view;
      view.rank = rank;
      view.size = kRanks;
      for (Rank peer = 0; peer < kRanks; ++peer) {
        if (peer == rank) continue;
        Contact& contact = part.contacts[static_cast<std::size_t>(peer)];
        contact.rank = peer;
        contact.endpoint = ends_[rank]->connect(peer, ends_[peer]->address()).value();
        view.in.push_back(peer);
        view.out.push_back(peer);
        part.peers.push_back(&contact);
        part.weights.push_back(0.25);
      }
      part.plan = plan_neighbor_allreduce(view, {false});
      part.request = {.collective = Collective::neighbor_allreduce,
                      .input = in(part.x->data(), kCount),
                      .output = out(part.y->data(), kCount)};
      Result<std::shared_ptr<GpuStage>> stage = find_gpu_operands(
          {&part.request, 1}, rank, StageOptions{}, std::make_shared<GpuBell>([] {}));
      ASSERT_TRUE(stage.ok()) << stage.status().to_string();
      part.stage = *stage;
      const Status begun = part.stage->begin({&part.request, 1}, part.peers, part.peers);
      ASSERT_TRUE(begun.ok()) << begun.to_string();
      Call call;
      call.in = call.out = part.peers;
      call.collective = Collective::neighbor_allreduce;
      call.type = DataType::f32;
      call.operation = 1;
      call.input = part.request.input.data;
      call.output = part.request.output.data;
      call.input_count = call.output_count = kCount;
      call.self_weight = 0.5;
      call.receive_weights = part.weights;
      call.gate = part.stage.get();
      call.combiner = part.stage->combiner();
      part.execution = std::make_unique<Execution>(options());
      const Status started = part.execution->start(part.plan, call);
      ASSERT_TRUE(started.ok()) << started.to_string();
    }
    int left = kRanks;
    for (int turn = 0; left != 0 && turn < kMostTurns; ++turn) {
      const auto rank = static_cast<Rank>(turn % kRanks);
      Part& part = parts[static_cast<std::size_t>(rank)];
      ends_[rank]->progress();
      const Execution::State state = part.execution->advance();
      ASSERT_NE(state, Execution::State::failed) << part.execution->status().to_string();
      if (part.has_ended || state != Execution::State::done) continue;
      part.stage->ended({});
      part.has_ended = true;
      --left;
    }
    ASSERT_EQ(left, 0);
    std::vector<float> sum(kCount);
    for (Rank rank = 0; rank < kRanks; ++rank) {
      const std::vector<float> each = values_of(rank);
      for (std::size_t i = 0; i < kCount; ++i) sum[i] += 0.25F * each[i];
    }
    for (Rank rank = 0; rank < kRanks; ++rank) {
      Part& part = parts[static_cast<std::size_t>(rank)];
      part.stage->wait_until_over();
      ASSERT_TRUE(part.stage->is_over());
      ASSERT_TRUE(part.stage->output_status().ok());
      std::vector<float> expected = sum;
      const std::vector<float> own = values_of(rank);
      for (std::size_t i = 0; i < kCount; ++i) expected[i] += 0.25F * own[i];
      EXPECT_EQ(part.y->get(), expected) << rank;
    }
  }

  static ExecutionOptions options() {
    static Trace trace(0);
    static TraceRing* const off = &trace.add_lane("off");
    ExecutionOptions options;
    options.channel = 1;
    options.piece_bytes = kPieceBytes;
    options.trace = off;
    return options;
  }

  const Twin& twin = Twin::get();
  std::unique_ptr<SimNetwork> network_;
  std::map<Rank, std::unique_ptr<Interface>> ends_;
  int pieces_of_gpus_ = 0;
};

TEST_F(FarGpus, AreSentFromWhereTheyAre) {
  open(true);
  const GpuUsage before = gpu_usage();
  run();
  EXPECT_EQ(gpu_usage().with_stand_ins - before.with_stand_ins, kRanks) << describe_gpu_memory();
  constexpr int kPieces =
      static_cast<int>((kCount * sizeof(float) + kPieceBytes - 1) / kPieceBytes);
  EXPECT_EQ(pieces_of_gpus_, kRanks * (kRanks - 1) * kPieces);
}

TEST_F(FarGpus, GoThroughBlocksWhereTheNetworkCannotSendThem) {
  open(false);
  const GpuUsage before = gpu_usage();
  run();
  EXPECT_EQ(gpu_usage().with_stand_ins, before.with_stand_ins);
  EXPECT_NE(
      describe_gpu_memory().find("is on another machine, and this transport sends memory of the "
                                 "host alone"),
      std::string::npos)
      << describe_gpu_memory();
}

}  // namespace
}  // namespace weft
