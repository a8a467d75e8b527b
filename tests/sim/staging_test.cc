// Private memory through a staging area that is much too small, or that has no block at all: every
// operation of all ranks, several at once, in one thread, turn by turn as the seed says. Each ends,
// its result is right, and the area does not grow.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "engine/execute/execute.h"
#include "verbs/shm/shm.h"

namespace weft {
namespace {

constexpr std::uint32_t kChannels = 4;  // control and three operations
constexpr int kMostTurns = 4'000'000;
constexpr std::size_t kBlockBytes = 512;
constexpr std::size_t kCount = 12'000;  // elements of a whole tensor: 94 blocks

// An operation of all ranks on whole tensors of kCount elements, or on a block of one for each rank.
struct OperationCase {
  const char* name;
  Collective collective;
  std::function<Planned(Rank rank, int size)> plan;
  bool is_input_whole, is_output_whole;
  // Element i of rank `to`'s output, when element i of rank r's input is value(r, i).
  std::function<double(Rank to, int size, std::size_t i)> result;
};

double value(Rank rank, std::size_t i) {
  return static_cast<double>((static_cast<std::size_t>(rank) * 7919 + i * 31) % 1000);
}

double sum(int size, std::size_t i) {
  double all = 0;
  for (Rank rank = 0; rank < size; ++rank) all += value(rank, i);
  return all;
}

// The block of a tensor that belongs to a rank: all are equally long.
std::size_t block(int size) {
  return kCount / static_cast<std::size_t>(size);
}

OperationCase allreduce(const char* name, AllreduceAlgorithm algorithm) {
  return {name,
          Collective::allreduce,
          [algorithm](Rank rank, int size) {
            return plan_allreduce(rank, size, kCount * sizeof(float), {}, algorithm);
          },
          true,
          true,
          [](Rank, int size, std::size_t i) { return sum(size, i); }};
}

std::vector<OperationCase> operations() {
  constexpr std::size_t kBytes = kCount * sizeof(float);
  const auto block_of = [](int size, std::size_t i) {
    return std::pair(static_cast<Rank>(i / block(size)), i % block(size));
  };
  return {
      allreduce("direct", AllreduceAlgorithm::direct),
      allreduce("split", AllreduceAlgorithm::split),
      allreduce("ring", AllreduceAlgorithm::ring),
      allreduce("halving_doubling", AllreduceAlgorithm::halving_doubling),
      {"broadcast", Collective::broadcast,
       [](Rank rank, int size) { return plan_broadcast(rank, size, 1, kBytes, {}); }, true, true,
       [](Rank, int, std::size_t i) { return value(1, i); }},
      {"allgather", Collective::allgather,
       [](Rank rank, int size) { return plan_allgather(rank, size, kBytes, {}); }, false, true,
       [=](Rank, int size, std::size_t i) {
         const auto [from, at] = block_of(size, i);
         return value(from, at);
       }},
      {"reduce_scatter", Collective::reduce_scatter,
       [](Rank rank, int size) { return plan_reduce_scatter(rank, size, kBytes, {}); }, true, false,
       [](Rank to, int size, std::size_t i) {
         return sum(size, static_cast<std::size_t>(to) * block(size) + i);
       }},
      {"alltoall", Collective::alltoall,
       [](Rank rank, int size) { return plan_alltoall(rank, size, {}); }, true, true,
       [=](Rank to, int size, std::size_t i) {
         const auto [from, at] = block_of(size, i);
         return value(from, static_cast<std::size_t>(to) * block(size) + at);
       }},
  };
}

// One rank's part in one operation.
struct Part {
  const OperationCase* operation = nullptr;
  Planned planned;
  std::vector<PeerConnection*> in, out;
  std::vector<Range> blocks;
  std::vector<float> input, output;
  Execution* execution = nullptr;
  bool is_done = false;
};

class Job {
 public:
  Job(int ranks, std::size_t most_blocks, std::uint64_t seed) : random_(seed), ranks_(ranks) {
    InterfaceOptions options;
    options.channels = kChannels;
    options.payload_bytes = 128;
    for (Rank rank = 0; rank < ranks; ++rank) {
      ends_.push_back(open_shm(rank, options, [this](Rank peer) {
                        return Result(ends_[static_cast<std::size_t>(peer)]->address());
                      }).value());
      pools_.push_back(std::make_unique<ScratchPool>(StagingOptions{kBlockBytes, most_blocks}));
    }
    for (Rank rank = 0; rank < ranks; ++rank) {
      for (Rank peer = 0; peer < ranks; ++peer) {
        PeerConnection& connection = connections_.emplace_back();
        connection.rank = peer;
        const auto address = ends_[static_cast<std::size_t>(peer)]->address();
        if (peer != rank)
          connection.endpoint =
              ends_[static_cast<std::size_t>(rank)]->connect(peer, address).value();
      }
      for (std::uint32_t channel = 1; channel < kChannels; ++channel)
        executions_.push_back(std::make_unique<Execution>(execution_options(rank, channel)));
    }
  }

  // Runs three operations at once, one on each channel.
  void run(std::span<const OperationCase* const> operations, std::uint32_t round) {
    std::vector<Part> parts(static_cast<std::size_t>(ranks_) * (kChannels - 1));
    for (std::size_t p = 0; p < parts.size(); ++p)
      start(parts[p], *operations[p % (kChannels - 1)], p, round);
    for (int turn = 0; turn < kMostTurns; ++turn) {
      Part& part = parts[random_() % parts.size()];
      const Execution::State state = part.execution->advance();
      ASSERT_NE(state, Execution::State::failed) << part.execution->status().to_string();
      part.is_done = state == Execution::State::done;
      if (!part.is_done || !std::ranges::all_of(parts, &Part::is_done)) continue;
      for (std::size_t p = 0; p < parts.size(); ++p) check(parts[p], rank_of(p));
      return;
    }
    FAIL() << "not done in " << kMostTurns << " turns";
  }

  [[nodiscard]] std::size_t most_staging_bytes() const {
    std::size_t most = 0;
    for (const auto& pool : pools_) most = std::max(most, pool->staging().bytes());
    return most;
  }

 private:
  static Rank rank_of(std::size_t part) { return static_cast<Rank>(part / (kChannels - 1)); }

  [[nodiscard]] ExecutionOptions execution_options(Rank rank, std::uint32_t channel) {
    static Trace trace(0);
    static TraceRing* const off = &trace.add_lane("off");
    ExecutionOptions options;
    options.channel = channel;
    options.payload_bytes = 128;
    options.private_memory = PrivateForm::staged;
    options.scratch = pools_[static_cast<std::size_t>(rank)].get();
    options.trace = off;
    return options;
  }

  void start(Part& part, const OperationCase& operation, std::size_t number, std::uint32_t round) {
    const Rank rank = rank_of(number);
    part.operation = &operation;
    part.planned = operation.plan(rank, ranks_);
    const auto connection = [&](Rank peer) {
      return &connections_[static_cast<std::size_t>(rank * ranks_ + peer)];
    };
    std::ranges::transform(part.planned.view.in, std::back_inserter(part.in), connection);
    std::ranges::transform(part.planned.view.out, std::back_inserter(part.out), connection);
    for (Rank peer = 0; peer < ranks_; ++peer)
      part.blocks.push_back({static_cast<std::size_t>(peer) * block(ranks_), block(ranks_)});
    part.input.resize(operation.is_input_whole ? kCount : block(ranks_));
    part.output.resize(operation.is_output_whole ? kCount : block(ranks_));
    for (std::size_t i = 0; i < part.input.size(); ++i)
      part.input[i] = static_cast<float>(value(rank, i));
    Call call;
    call.in = part.in;
    call.out = part.out;
    call.collective = operation.collective;
    call.type = DataType::f32;
    call.reduction = Reduction::sum;
    call.operation = round * (kChannels - 1) + static_cast<std::uint32_t>(number) % (kChannels - 1);
    call.input = part.input.data();
    call.output = part.output.data();
    call.input_count = part.input.size();
    call.output_count = part.output.size();
    call.given = call.given_input = part.blocks;
    call.checks_graph = false;
    part.execution = executions_[number].get();
    const Status status = part.execution->start(part.planned.plan, call);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

  void check(const Part& part, Rank rank) const {
    for (std::size_t i = 0; i < part.output.size(); ++i) {
      ASSERT_EQ(part.output[i], part.operation->result(rank, ranks_, i))
          << part.operation->name << ", rank " << rank << ", element " << i;
    }
  }

  std::mt19937_64 random_;
  int ranks_;
  std::vector<std::unique_ptr<ScratchPool>> pools_;
  std::vector<std::unique_ptr<Interface>> ends_;
  std::vector<PeerConnection> connections_;
  std::vector<std::unique_ptr<Execution>> executions_;
};

class Staging : public testing::TestWithParam<std::size_t> {};

TEST_P(Staging, EveryOperationEndsAndStaysInTheArea) {
  const std::vector<OperationCase> all = operations();
  std::uint64_t seed = 1;
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks, seed " + std::to_string(seed));
    Job job(ranks, GetParam(), seed++);
    for (std::uint32_t round = 0; round < all.size(); ++round) {
      const OperationCase* const three[] = {&all[round], &all[(round + 1) % all.size()],
                                            &all[(round + 3) % all.size()]};
      job.run(three, round);
      if (HasFatalFailure()) return;
    }
    EXPECT_LE(job.most_staging_bytes(), GetParam() * kBlockBytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, Staging, testing::Values(0, 1, 2, 3, 16));

}  // namespace
}  // namespace weft
