// Executions of whole jobs in one thread, turn by turn as the seed says: neighbor_allreduce on
// random weighted digraphs, over shared memory, over simulated networks, and over both at once with
// rails that are cut in the middle. Every result is compared with double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "engine/execute/execute.h"
#include "tests/base/sanitized.h"
#include "tests/sim/network.h"
#include "tests/sim/pair.h"
#include "verbs/bond/bond.h"
#include "verbs/shm/shm.h"

namespace weft {
namespace {

constexpr std::uint32_t kChannels = 4;  // control and three operations
constexpr std::size_t kPayloadBytes = 128, kPieceBytes = 512;
constexpr int kMostTurns = 400'000;
constexpr std::int64_t kTurnNs = 10'000;

enum class Ways : std::uint8_t { memory, network, both };

// The edges and weights of one operation.
struct Digraph {
  explicit Digraph(int ranks, std::mt19937_64& random)
      : weight(static_cast<std::size_t>(ranks),
               std::vector<double>(static_cast<std::size_t>(ranks))) {
    for (std::size_t to = 0; to < weight.size(); ++to) {
      for (std::size_t from = 0; from < weight.size(); ++from) {
        const bool edge = to == from || random() % 3 == 0;
        if (edge) weight[to][from] = 0.1 + static_cast<double>(random() % 100) / 50;
      }
    }
  }
  std::vector<std::vector<double>> weight;  // [to][from]; 0: no edge
};

// One rank's part in one operation.
struct Part {
  View view;
  Plan plan;
  std::vector<PeerConnection*> in, out;
  std::vector<double> weights;
  float* input = nullptr;
  float* output = nullptr;
  std::vector<Run> input_runs, output_runs;  // empty: input and output are one run each
  std::vector<float> foreign;                // of both, if not in the shared heap
  std::size_t piece_bytes = 0;               // that the call asks for
  std::vector<std::uint64_t> posted;         // by out-edge, before the operation
  Execution* execution = nullptr;
  bool checked = false;
};

class Job {
 public:
  Job(std::uint64_t seed, Ways ways)
      : ways_(ways), random_(seed), ranks_(2 + static_cast<int>(seed % 7)) {
    for (std::size_t r = 0; r < 2; ++r)
      networks_.push_back(std::make_unique<SimNetwork>(SimOptions{seed + r, 1 + seed % 12, 512}));
    machines_ = ways == Ways::memory ? 1 : ways == Ways::network ? ranks_ : 2;
    for (Rank rank = 0; rank < ranks_; ++rank) open(rank, ways);
    for (Rank rank = 0; rank < ranks_; ++rank) {
      for (Rank peer = 0; peer < ranks_; ++peer) {
        PeerConnection connection;
        connection.rank = peer;
        if (peer != rank)
          connection.endpoint = ends_[rank]->connect(peer, ends_[peer]->address()).value();
        connections_.push_back(connection);
      }
      for (std::uint32_t channel = 1; channel < kChannels; ++channel)
        executions_.push_back(std::make_unique<Execution>(execution_options(channel)));
    }
  }
  ~Job() {
    for (float* block : blocks_) deallocate(block);
  }

  // Runs one operation on each channel at once, cutting a rail in the middle if told to.
  void run(std::uint32_t round, bool cut) {
    std::vector<Part> parts;
    parts.reserve(static_cast<std::size_t>(ranks_) * (kChannels - 1));
    std::vector<Digraph> graphs;
    std::vector<std::size_t> counts;
    for (std::uint32_t channel = 1; channel < kChannels; ++channel) {
      graphs.emplace_back(ranks_, random_);
      counts.push_back(random_() % 3 == 0 ? random_() % 20 : random_() % 6000);
      for (Rank rank = 0; rank < ranks_; ++rank)
        start(parts.emplace_back(), rank, channel, round, graphs.back(), counts.back());
    }
    const int cut_at = cut ? static_cast<int>(random_() % 2000) : -1;
    for (int turn = 0; turn < kMostTurns; ++turn) {
      simulated_ns() += kTurnNs;
      if (turn == cut_at) cut_rail();
      Part& part = parts[random_() % parts.size()];
      ends_[part.view.rank]->progress();
      const Execution::State state = part.execution->advance();
      ASSERT_NE(state, Execution::State::failed) << part.execution->status().to_string();
      if (state == Execution::State::done && !part.checked) {
        const std::size_t op =
            static_cast<std::size_t>(&part - parts.data()) / static_cast<std::size_t>(ranks_);
        check(part, graphs[op], counts[op]);
        if (ways_ == Ways::network) check_pieces(part, counts[op]);
        part.checked = true;
      }
      if (std::ranges::all_of(parts, &Part::checked)) return;
    }
    FAIL() << "not done in " << kMostTurns << " turns";
  }

 private:
  void open(Rank rank, Ways ways) {
    InterfaceOptions options;
    options.channels = kChannels;
    options.payload_bytes = kPayloadBytes;
    options.machine = static_cast<std::uint64_t>(rank % machines_) + 1;
    const BondMember memory{{}, {}, [=](AddressResolver resolver) {
                              return open_shm(rank, options, std::move(resolver));
                            }};
    std::vector<BondMember> rails;
    for (std::size_t r = 0; r < networks_.size() && ways != Ways::memory; ++r) {
      rails.push_back({"sim", "rail" + std::to_string(r), [=, this](AddressResolver) {
                         auto opened = networks_[r]->open(rank, options, "sim" + std::to_string(r));
                         members_.push_back(opened.get());
                         return Result<std::unique_ptr<Interface>>(std::move(opened));
                       }});
    }
    BondOptions bond;
    bond.rank = rank;
    bond.channels = kChannels;
    bond.payload_bytes = options.payload_bytes;
    bond.clock = [] { return simulated_ns(); };
    ends_[rank] = open_bond(bond, ways == Ways::network ? nullptr : &memory, std::move(rails),
                            [this](Rank peer) { return Result(ends_[peer]->address()); })
                      .value();
  }

  static ExecutionOptions execution_options(std::uint32_t channel) {
    static Trace trace(0);
    static TraceRing* const off = &trace.add_lane("off");
    ExecutionOptions options;
    options.channel = channel;
    options.payload_bytes = kPayloadBytes;
    options.piece_bytes = kPieceBytes;
    options.trace = off;
    return options;
  }

  [[nodiscard]] PeerConnection* connection(Rank rank, Rank peer) {
    return &connections_[static_cast<std::size_t>(rank * ranks_ + peer)];
  }

  void start(Part& part, Rank rank, std::uint32_t channel, std::uint32_t round,
             const Digraph& graph, std::size_t count) {
    part.view.rank = rank;
    part.view.size = ranks_;
    for (Rank peer = 0; peer < ranks_; ++peer) {
      if (peer == rank) continue;
      if (graph.weight[rank][peer] != 0) {
        part.view.in.push_back(peer);
        part.in.push_back(connection(rank, peer));
        part.weights.push_back(graph.weight[rank][peer]);
      }
      if (graph.weight[peer][rank] != 0) {
        part.view.out.push_back(peer);
        part.out.push_back(connection(rank, peer));
      }
    }
    const bool in_place = random_() % 4 == 0;
    part.plan = plan_neighbor_allreduce(part.view, {in_place});
    take_memory(part, count, in_place);
    for (std::size_t i = 0; i < count; ++i) part.input[i] = value(rank, i);
    part.execution =
        executions_[static_cast<std::size_t>(rank) * (kChannels - 1) + channel - 1].get();
    Call call;
    call.in = part.in;
    call.out = part.out;
    call.collective = Collective::neighbor_allreduce;
    call.type = DataType::f32;
    call.operation = round * (kChannels - 1) + channel;
    call.input = part.input;
    call.output = part.output;
    if (ways_ == Ways::memory && part.foreign.empty() && random_() % 2 == 0) {
      cut_into(part.input_runs, part.input, count);
      cut_into(part.output_runs, part.output, count);
      if (count != 0) call.input = Runs(part.input_runs);
      if (count != 0) call.output = Runs(part.output_runs);
    }
    call.input_count = call.output_count = count;
    call.self_weight = graph.weight[rank][rank];
    call.receive_weights = part.weights;
    // Each rank cuts its messages as it likes.
    constexpr std::size_t kPieces[] = {0, 64, 192, 100'000};
    call.piece_bytes = part.piece_bytes = kPieces[random_() % std::size(kPieces)];
    for (const PeerConnection* peer : part.out)
      part.posted.push_back(peer->endpoint->posted(channel));
    const Status status = part.execution->start(part.plan, call);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

  // Runs of any number of elements.
  void cut_into(std::vector<Run>& runs, float* data, std::size_t count) {
    while (count != 0) {
      const std::size_t next = std::min(count, 1 + random_() % (random_() % 2 == 0 ? 40 : 4000));
      runs.push_back({reinterpret_cast<std::byte*>(data), next * sizeof(float)});
      data += next;
      count -= next;
    }
  }

  void take_memory(Part& part, std::size_t count, bool in_place) {
    if (random_() % 2 == 0) {
      part.foreign.resize(2 * count + 1);
      part.input = part.foreign.data();
    } else {
      part.input = static_cast<float*>(allocate((2 * count + 1) * sizeof(float)).value());
      blocks_.push_back(part.input);
    }
    part.output = in_place ? part.input : part.input + count;
  }

  static float value(Rank rank, std::size_t i) {
    return static_cast<float>((static_cast<std::size_t>(rank) * 7919 + i * 31) % 1000) / 100;
  }

  void check(const Part& part, const Digraph& graph, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      double expected = 0;
      for (Rank from = 0; from < ranks_; ++from)
        expected += graph.weight[part.view.rank][from] * static_cast<double>(value(from, i));
      ASSERT_NEAR(part.output[i], expected, 1e-5 * (1 + expected)) << "rank " << part.view.rank;
    }
  }

  // A message that is no more than a payload is one notice; else each piece is one.
  static void check_pieces(const Part& part, std::size_t count) {
    const std::size_t bytes = count * sizeof(float);
    const std::size_t most =
        part.piece_bytes == 0 ? kPieceBytes : std::min(part.piece_bytes, kPieceBytes);
    const std::size_t pieces = bytes <= kPayloadBytes ? 1 : (bytes + most - 1) / most;
    for (std::size_t edge = 0; edge < part.out.size(); ++edge) {
      const std::uint32_t channel = (part.execution->call().operation - 1) % (kChannels - 1) + 1;
      ASSERT_EQ(part.out[edge]->endpoint->posted(channel) - part.posted[edge], pieces)
          << bytes << " bytes in pieces of " << most;
    }
  }

  // The first rail, between all.
  void cut_rail() {
    for (std::size_t a = 0; a < members_.size(); a += 2) {
      for (std::size_t b = a + 2; b < members_.size(); b += 2)
        networks_[0]->cut(*members_[a], *members_[b], SimNetwork::Cut::told);
    }
  }

  const Ways ways_;
  std::mt19937_64 random_;
  int ranks_;
  int machines_ = 1;
  std::vector<std::unique_ptr<SimNetwork>> networks_;
  std::vector<Interface*> members_;
  std::map<Rank, std::unique_ptr<Interface>> ends_;
  std::vector<PeerConnection> connections_;
  std::vector<std::unique_ptr<Execution>> executions_;
  std::vector<float*> blocks_;
};

void run_jobs(Ways ways, std::uint64_t seeds, bool cut) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Job job(seed, ways);
    for (std::uint32_t round = 0; round < 3; ++round) {
      job.run(round, cut && round == 1);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Execution, OverSharedMemoryInAnyOrderOfTurns) {
  run_jobs(Ways::memory, seeds(60), false);
}

TEST(Execution, OverTwoRailsOfANetwork) {
  run_jobs(Ways::network, seeds(60), false);
}

TEST(Execution, OverMemoryAndNetworkAtOnce) {
  run_jobs(Ways::both, seeds(60), false);
}

TEST(Execution, GoesOnWhenARailIsCut) {
  run_jobs(Ways::network, seeds(30), true);
  run_jobs(Ways::both, seeds(30), true);
}

}  // namespace
}  // namespace weft
