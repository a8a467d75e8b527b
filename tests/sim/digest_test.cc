// Damage on the wire: one bit of one notice changes on its way, whatever the notice carries. The checksums of
// pieces find it where the piece is combined, and the comparison of results where nobody checks pieces.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/execute/execute.h"
#include "tests/sim/network.h"

namespace weft {
namespace {

constexpr std::uint32_t kChannel = 1;
constexpr std::size_t kPayloadBytes = 128;
constexpr int kMostTurns = 10'000;
constexpr std::size_t kWord = 1, kPayload = 20, kPieces = 1000;  // elements

// The first notice of data that rank 1 gets.
enum class Damage : std::uint8_t { none, data, weight };

struct Mode {
  bool checks_pieces = false, compares_results = false;
};

class TwoRanks {
 public:
  TwoRanks(Damage damage, const Mode& mode)
      : network_({.change = [damage, is_done = false](std::span<std::byte> head,
                                                      std::span<std::byte> payload) mutable {
          auto& header = *reinterpret_cast<WireHeader*>(head.data());
          if (is_done || damage == Damage::none || header.kind != NoticeKind::data) return;
          is_done = true;
          if (damage == Damage::weight) {
            header.weight *= 2;
          } else if (payload.empty()) {
            header.word ^= 1U << 9;
          } else {
            payload[payload.size() / 2] ^= std::byte{64};
          }
        }}) {
    InterfaceOptions options;
    options.channels = kChannel + 1;
    options.payload_bytes = kPayloadBytes;
    for (Rank rank = 0; rank < 2; ++rank) {
      options.machine = static_cast<std::uint64_t>(rank) + 1;
      ends_.push_back(network_.open(rank, options, "sim"));
    }
    for (Rank rank = 0; rank < 2; ++rank) {
      PeerConnection& peer = peers_[rank];
      peer.rank = 1 - rank;
      peer.endpoint = ends_[rank]->connect(1 - rank, ends_[1 - rank]->address()).value();
      executions_.push_back(std::make_unique<Execution>(execution_options(rank, mode)));
    }
  }

  // Runs an operation on both ranks until neither has anything to do.
  void run(Collective collective, std::size_t count) {
    std::vector<Planned> plans;
    std::vector<PeerConnection*> connections[2] = {{&peers_[0]}, {&peers_[1]}};
    std::vector<float> input[2], output[2];
    for (Rank rank = 0; rank < 2; ++rank) {
      const bool is_sum = collective == Collective::allreduce;
      plans.push_back(
          is_sum ? plan_allreduce(rank, 2, count * sizeof(float), {}, AllreduceAlgorithm::direct)
                 : Planned{{rank, 2, {1 - rank}, {1 - rank}}, {}});
      if (!is_sum) plans.back().plan = plan_neighbor_allreduce(plans.back().view, {});
      for (std::size_t i = 0; i < count; ++i) input[rank].push_back(static_cast<float>(i + 1) / 7);
      output[rank].resize(count);
    }
    for (Rank rank = 0; rank < 2; ++rank) {
      Call call;
      call.in = call.out = connections[rank];
      call.collective = collective;
      call.type = DataType::f32;
      call.input = input[rank].data();
      call.output = output[rank].data();
      call.input_count = call.output_count = count;
      call.has_common_result = has<kCommonResult>(collective);
      ASSERT_TRUE(executions_[rank]->start(plans[rank].plan, call).ok());
    }
    for (int turn = 0; turn < kMostTurns; ++turn) {
      const Rank rank = turn % 2;
      ends_[rank]->progress();
      (void)executions_[rank]->advance();
    }
  }

  [[nodiscard]] Execution::State state(Rank rank) const { return executions_[rank]->state(); }
  [[nodiscard]] const Status& status(Rank rank) const { return executions_[rank]->status(); }

 private:
  static ExecutionOptions execution_options(Rank rank, const Mode& mode) {
    static Trace trace(0);
    static TraceRing* const off = &trace.add_lane("off");
    ExecutionOptions options;
    options.channel = kChannel;
    options.payload_bytes = kPayloadBytes;
    options.piece_bytes = 512;
    options.rank = rank;
    options.size = 2;
    options.trace = off;
    options.checks_pieces = mode.checks_pieces;
    options.compares_results = mode.compares_results;
    return options;
  }

  SimNetwork network_;
  std::vector<std::unique_ptr<Interface>> ends_;
  PeerConnection peers_[2];
  std::vector<std::unique_ptr<Execution>> executions_;
};

void expect_corrupted(const Status& status, std::initializer_list<const char*> words) {
  EXPECT_EQ(status.code(), Code::corrupted) << status.to_string();
  for (const char* word : words)
    EXPECT_NE(status.text().find(word), std::string_view::npos) << status.to_string();
}

class DamageOnTheWire : public testing::TestWithParam<std::size_t> {};

TEST_P(DamageOnTheWire, IsFoundByTheChecksumOfThePiece) {
  for (const Collective collective : {Collective::allreduce, Collective::neighbor_allreduce}) {
    TwoRanks ranks(Damage::data, {.checks_pieces = true});
    ranks.run(collective, GetParam());
    const bool is_of_0 = ranks.state(0) == Execution::State::failed;
    const Rank found = is_of_0 ? 0 : 1;
    ASSERT_EQ(ranks.state(found), Execution::State::failed);
    expect_corrupted(ranks.status(found),
                     {name(collective).data(), is_of_0 ? "rank 1" : "rank 0", "piece", "sim"});
    EXPECT_EQ(ranks.status(found).rank(), 1 - found);
  }
}

TEST_P(DamageOnTheWire, OfAWeightIsFoundToo) {
  TwoRanks ranks(Damage::weight, {.checks_pieces = true});
  ranks.run(Collective::neighbor_allreduce, GetParam());
  const Rank found = ranks.state(0) == Execution::State::failed ? 0 : 1;
  expect_corrupted(ranks.status(found), {"neighbor_allreduce", "piece"});
}

TEST_P(DamageOnTheWire, IsFoundByComparingResults) {
  TwoRanks ranks(Damage::data, {.compares_results = true});
  ranks.run(Collective::allreduce, GetParam());
  for (const Rank rank : {0, 1})
    expect_corrupted(ranks.status(rank), {"allreduce", "rank 0", "rank", "1", "sim"});
}

TEST_P(DamageOnTheWire, WithoutDamageAllEndsWell) {
  for (const Collective collective : {Collective::allreduce, Collective::neighbor_allreduce}) {
    TwoRanks ranks(Damage::none, {.checks_pieces = true, .compares_results = true});
    for (int times = 0; times < 3; ++times) {
      ranks.run(collective, GetParam());
      for (const Rank rank : {0, 1})
        ASSERT_EQ(ranks.state(rank), Execution::State::done) << ranks.status(rank).to_string();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Messages, DamageOnTheWire, testing::Values(kWord, kPayload, kPieces),
                         [](const auto& info) {
                           return std::string(info.param == kWord      ? "word"
                                              : info.param == kPayload ? "payload"
                                                                       : "pieces");
                         });

}  // namespace
}  // namespace weft
