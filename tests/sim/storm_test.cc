// Everything at once, drawn from a seed: rails that are cut in every way, mended, slow, fast again
// and late, with streams on all channels in both directions. Whatever happens, every message comes
// once, whole and in order, and all of them come.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "tests/base/sanitized.h"
#include "tests/sim/pair.h"

namespace weft {
namespace {

constexpr std::uint32_t kMessages = 6000;
constexpr int kMostTurns = 1'000'000;
constexpr double kFull = 60;  // bytes in a turn

// Which rails may be cut.
enum class Spares : std::uint8_t {
  first,  // all but rail 0, which changes little
  one,    // any, as long as another carries or was only slow
};

class Storm {
 public:
  Storm(std::uint64_t seed, std::size_t rails, Spares spares)
      : random_(seed), spares_(spares), pair_(options_of(seed, rails, spares)) {
    for (const Rank rank : {0, 1}) {
      for (std::uint32_t channel = 0; channel < kSimChannels; ++channel) {
        streams_.push_back(std::make_unique<PairStream>(
            pair_.from(rank), pair_.from(1 - rank), channel,
            spares == Spares::first ? kMessages : 4 * kMessages,
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
        next += 1 + below(spares_ == Spares::first ? 1500 : 4000);
      }
      simulated_ns() += kTurnNs;
      pair_.at(below(2)).progress();
      for (int k = below(spares_ == Spares::first ? 4 : 8); k != 0; --k)
        streams_[static_cast<std::size_t>(below(static_cast<int>(streams_.size())))]->turn();
      if (testing::Test::HasFatalFailure() || is_over()) return;
    }
    std::ostringstream got;
    for (const auto& stream : streams_) got << " " << stream->sent() << "/" << stream->received();
    FAIL() << "not everything arrived:" << got.str() << "; " << pair_.paths(0) << "; "
           << pair_.paths(1);
  }

  // How often the last rail was cut while another was out.
  [[nodiscard]] int reserves() const { return reserves_; }

 private:
  static PairOptions options_of(std::uint64_t seed, std::size_t rails, Spares spares) {
    PairOptions options;
    for (std::size_t r = 0; r < rails; ++r)
      options.rails.push_back({seed * 31 + r, 1 + (seed + r * 7) % 20, 512, 200});
    options.slow_ms = 60;
    if (spares == Spares::first) return options;
    // Rails that are always full, as only those can be found slow.
    for (SimOptions& rail : options.rails) rail.bytes_per_turn = kFull;
    options.slots = 16;
    options.return_ms = 100;
    return options;
  }

  [[nodiscard]] int below(int end) {
    return static_cast<int>(random_() % static_cast<std::uint64_t>(end));
  }
  [[nodiscard]] bool is_over() const {
    return std::ranges::all_of(
        streams_, [](const auto& stream) { return stream->done() && stream->locally_completed(); });
  }

  // Whether both ends have the rail, or could at once.
  [[nodiscard]] bool stands(std::size_t rail) {
    if (pair_.rail(rail).is_cut()) return false;
    bool slow = false, told = false;
    for (const Rank rank : {0, 1}) {
      const std::string text = pair_.path(rank, rail);
      if (text.find("coming back") != std::string::npos) return false;
      if (text.find("given up") == std::string::npos) continue;
      const bool by_us = text.find("has grown slow") != std::string::npos;
      const bool by_peer = text.find("gave the path up") != std::string::npos;
      if (!by_us && !by_peer) return false;
      slow |= by_us;
      told |= by_peer;
    }
    return slow || !told;
  }
  [[nodiscard]] bool may_be_cut(std::size_t rail) {
    if (pair_.rail(rail).is_cut()) return false;
    if (spares_ == Spares::first) return rail != 0;
    for (std::size_t other = 0; other < static_cast<std::size_t>(pair_.rails()); ++other) {
      if (other != rail && stands(other)) return true;
    }
    return false;
  }

  void happen() {
    const auto rail = static_cast<std::size_t>(below(pair_.rails()));
    SimNetwork& network = pair_.rail(rail);
    switch (below(5)) {
      case 0:
        if (may_be_cut(rail)) cut(rail);
        break;
      case 1:
      case 2:
        network.mend();
        break;
      case 3:
        if (spares_ == Spares::one) {
          network.set_rate(below(2) == 0 ? kFull : kFull / (20 + below(20)));
        } else {
          network.set_rate(below(2) == 0 ? 200 : rail == 0 ? 50 : 0.2 + below(20));
        }
        break;
      case 4:
        network.set_delay(
            static_cast<std::uint64_t>(1 + below(rail != 0 && below(4) == 0 ? 400 : 20)));
        break;
    }
  }

  [[nodiscard]] std::size_t lives() {
    std::size_t count = 0;
    for (std::size_t r = 0; r < static_cast<std::size_t>(pair_.rails()); ++r)
      count += pair_.lives(r) ? 1 : 0;
    return count;
  }
  void cut(std::size_t rail) {
    const bool is_last = pair_.lives(rail) && lives() == 1;
    if (is_last) ++reserves_;
    pair_.cut(rail, static_cast<SimNetwork::Cut>(below(4)), below(2));
  }

  std::mt19937_64 random_;
  Spares spares_;
  Pair pair_;
  std::vector<std::unique_ptr<PairStream>> streams_;
  int reserves_ = 0;
};

TEST(Storm, EveryMessageComesOnceAndInOrder) {
  for (std::uint64_t seed = 1; seed <= seeds(25) && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Storm(seed, 2 + seed % 3, Spares::first).run();
  }
}

TEST(Storm, TheLastRailMayGoWhileASlowOneWaits) {
  int reserves = 0;
  for (std::uint64_t seed = 1; seed <= seeds(10) && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Storm storm(seed, 2 + seed % 2, Spares::one);
    storm.run();
    reserves += storm.reserves();
  }
  EXPECT_GT(reserves, searched(10, 0));
}

}  // namespace
}  // namespace weft
