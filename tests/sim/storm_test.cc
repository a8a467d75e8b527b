// Everything at once, drawn from a seed: rails that are cut in every way, mended, slow, fast again
// and late, with streams on all channels in both directions. Whatever happens, every message comes
// once, whole and in order, and all of them come.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "tests/sim/pair.h"

namespace weft {
namespace {

constexpr std::uint32_t kMessages = 6000;
constexpr int kMostTurns = 1'000'000;

class Storm {
 public:
  Storm(std::uint64_t seed, std::size_t rails) : random_(seed), pair_(options_of(seed, rails)) {
    for (const Rank rank : {0, 1}) {
      for (std::uint32_t channel = 0; channel < kSimChannels; ++channel) {
        streams_.push_back(std::make_unique<Stream>(
            pair_.from(rank), pair_.from(1 - rank), channel, kMessages,
            [salt = seed + channel](std::uint32_t number) -> std::size_t {
              const bool small = (number * 2654435761U + salt) % 3 == 0;
              return small ? number % (kSimPayload + 1) : kSimPayload + 1 + number % 448;
            }));
      }
    }
  }

  void run() {
    int next = 0;
    for (int turn = 0; turn < kMostTurns; ++turn) {
      if (turn == next) {
        happen();
        next += 1 + below(1500);
      }
      simulated_ns() += kTurnNs;
      pair_.at(below(2)).progress();
      for (int k = below(4); k != 0; --k)
        streams_[static_cast<std::size_t>(below(static_cast<int>(streams_.size())))]->turn();
      if (testing::Test::HasFatalFailure() || is_over()) return;
    }
    std::ostringstream got;
    for (const auto& stream : streams_) got << " " << stream->sent() << "/" << stream->received();
    FAIL() << "not everything arrived:" << got.str() << "; " << pair_.paths(0) << "; "
           << pair_.paths(1);
  }

 private:
  static PairOptions options_of(std::uint64_t seed, std::size_t rails) {
    PairOptions options;
    for (std::size_t r = 0; r < rails; ++r)
      options.rails.push_back({seed * 31 + r, 1 + (seed + r * 7) % 20, 512, 200});
    options.slow_ms = 60;
    return options;
  }

  [[nodiscard]] int below(int end) {
    return static_cast<int>(random_() % static_cast<std::uint64_t>(end));
  }
  [[nodiscard]] bool is_over() const {
    return std::ranges::all_of(
        streams_, [](const auto& stream) { return stream->done() && stream->settled(); });
  }

  // Rail 0 changes little, so that there is always a way.
  void happen() {
    const auto rail = static_cast<std::size_t>(below(pair_.rails()));
    SimNetwork& network = pair_.rail(rail);
    switch (below(5)) {
      case 0:
        if (rail != 0 && !network.is_cut()) pair_.cut(rail, static_cast<SimNetwork::Cut>(below(3)));
        break;
      case 1:
      case 2:
        network.mend();
        break;
      case 3:
        network.set_rate(below(2) == 0 ? 200 : rail == 0 ? 50 : 0.2 + below(20));
        break;
      case 4:
        network.set_delay(
            static_cast<std::uint64_t>(1 + below(rail != 0 && below(4) == 0 ? 400 : 20)));
        break;
    }
  }

  std::mt19937_64 random_;
  Pair pair_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

TEST(Storm, EveryMessageComesOnceAndInOrder) {
  for (std::uint64_t seed = 1; seed <= 25 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Storm(seed, 2 + seed % 3).run();
  }
}

}  // namespace
}  // namespace weft
