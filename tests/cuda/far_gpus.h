// Operations of ranks on different machines whose tensors are on GPUs, on the fake of the driver: what
// their tests over several kinds of networks share. A test opens the ranks' interfaces.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/gpu/gpu.h"
#include "engine/gpu_kernels/gpu_kernels.h"
#include "tests/cuda/fake_library.h"
#include "verbs/bond/bond.h"

namespace weft {

class FarGpus : public testing::Test {
 protected:
  static constexpr int kRanks = 3;
  static constexpr std::size_t kCount = 300'000;  // of floats: more than a MiB
  static constexpr std::size_t kPieceBytes = 64 << 10;
  static constexpr std::uint32_t kChannels = 2;
  static constexpr int kMostTurns = 2'000'000;

  void SetUp() override {
    fake.reset();
    const GpuArray<float> any(1, 0);
    const Status kernels = GpuKernels::of(*gpu_memory(any.data())).status();
    if (kernels.text().find("no nvcc") != std::string_view::npos) GTEST_SKIP() << kernels.text();
  }
  void TearDown() override { fake.reset(); }

  static std::vector<float> values_of(Rank rank) {
    std::vector<float> values(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      values[i] = static_cast<float>((i * 3 + static_cast<std::size_t>(rank) * 11) % 64);
    return values;
  }

  // So many rails for each rank, as `open` opens them.
  using Open = std::function<Result<std::unique_ptr<Interface>>(
      Rank, int rail, const InterfaceOptions&, AddressResolver)>;
  void open_all(const std::string& kind, const Open& open, int count = 1) {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      InterfaceOptions own;
      own.channels = kChannels;
      own.machine = static_cast<std::uint64_t>(rank) + 1;
      BondOptions bond;
      bond.rank = rank;
      bond.channels = kChannels;
      std::vector<BondMember> rails;
      for (int rail = 0; rail < count; ++rail) {
        rails.push_back({kind, "rail" + std::to_string(rail), [=](AddressResolver resolver) {
                           return open(rank, rail, own, std::move(resolver));
                         }});
      }
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
      std::vector<PeerConnection> connections = std::vector<PeerConnection>(kRanks);
      std::vector<PeerConnection*> peers;
      std::vector<double> weights;
      std::shared_ptr<GpuOperands> operands;
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
        PeerConnection& connection = part.connections[static_cast<std::size_t>(peer)];
        connection.rank = peer;
        connection.endpoint = ends_[rank]->connect(peer, ends_[peer]->address()).value();
        view.in.push_back(peer);
        view.out.push_back(peer);
        part.peers.push_back(&connection);
        part.weights.push_back(0.25);
      }
      part.plan = plan_neighbor_allreduce(view, {false});
      part.request = {.collective = Collective::neighbor_allreduce,
                      .input = in(part.x->data(), kCount),
                      .output = out(part.y->data(), kCount)};
      Result<std::shared_ptr<GpuOperands>> operands = find_gpu_operands(
          {&part.request, 1}, rank, gpu_options_, std::make_shared<GpuBell>([] {}));
      ASSERT_TRUE(operands.ok()) << operands.status().to_string();
      part.operands = *operands;
      const auto begin = [&]() -> Status {
        WEFT_RETURN_IF_ERROR(part.operands->follow());
        WEFT_RETURN_IF_ERROR(part.operands->place({&part.request, 1}, part.peers, part.peers));
        return part.operands->bring();
      };
      const Status begun = begin();
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
      call.gate = part.operands.get();
      call.reducer = part.operands->reducer();
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
      part.operands->ended({});
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
      part.operands->wait_until_over();
      ASSERT_TRUE(part.operands->is_over());
      ASSERT_TRUE(part.operands->output_status().ok());
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

  const FakeDriver& fake = FakeDriver::get();
  std::map<Rank, std::unique_ptr<Interface>> ends_;
  GpuOperandOptions gpu_options_;
};

}  // namespace weft
