// Cables that come and go, one at a time, under several bonds of the same two ranks: those of a
// context and of contexts that are split from it meanwhile. Each end sees some of it and at moments
// of its own, so the two may give up different rails. Every message comes once, whole and in order,
// and all of them come.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/base/sanitized.h"
#include "tests/sim/pair.h"

namespace weft {
namespace {

constexpr std::size_t kRails = 2;
constexpr int kMostTurns = 300'000;
constexpr std::size_t kMostSplits = 3;

PairOptions options_of(std::uint64_t seed) {
  PairOptions options;
  for (std::size_t r = 0; r < kRails; ++r)
    options.rails.push_back({seed * 31 + r, 1 + (seed + r * 7) % 20, 512, 200});
  return options;
}

// A context: its bonds, and streams on all channels in both directions.
struct Context {
  explicit Context(std::unique_ptr<Pair> bonds, std::uint64_t salt) : pair(std::move(bonds)) {
    for (const Rank rank : {0, 1}) {
      for (std::uint32_t channel = 0; channel < kSimChannels; ++channel) {
        streams.push_back(std::make_unique<PairStream>(
            pair->from(rank), pair->from(1 - rank), channel, ~std::uint32_t{0},
            [salt = salt + channel](std::uint32_t number) -> std::size_t {
              const bool small = (number * 2654435761U + salt) % 3 == 0;
              return small ? number % (kSimPayload + 1) : kSimPayload + 1 + number % 448;
            }));
      }
    }
  }
  [[nodiscard]] bool has_caught_up() const {
    return std::ranges::all_of(streams, [](const auto& stream) { return stream->caught_up(); });
  }

  std::unique_ptr<Pair> pair;
  std::vector<std::unique_ptr<PairStream>> streams;
};

class Flaps {
 public:
  explicit Flaps(std::uint64_t seed) : seed_(seed), random_(seed) {
    contexts_.emplace_back(std::make_unique<Pair>(options_of(seed)), seed);
  }

  [[nodiscard]] int below(int end) {
    return static_cast<int>(random_() % static_cast<std::uint64_t>(end));
  }
  [[nodiscard]] Pair& first() { return *contexts_.front().pair; }
  void pull(std::size_t rail, Rank rank) { first().cut(rail, SimNetwork::Cut::pulled, rank); }
  void mend() {
    for (std::size_t rail = 0; rail < kRails; ++rail) first().rail(rail).mend();
  }
  void split() {
    if (contexts_.size() > kMostSplits) contexts_.erase(contexts_.begin() + 1);
    contexts_.emplace_back(std::make_unique<Pair>(options_of(seed_), first()),
                           seed_ + contexts_.size());
  }
  void run(int turns) {
    for (; turns > 0 && !testing::Test::HasFatalFailure(); --turns) step(true);
  }
  // All that was sent comes.
  void finish() {
    for (int turn = 0; turn < kMostTurns && !testing::Test::HasFatalFailure(); ++turn) {
      if (std::ranges::all_of(contexts_, &Context::has_caught_up)) return;
      step(false);
    }
    std::string paths;
    for (const Context& context : contexts_)
      paths += "; " + context.pair->paths(0) + " and " + context.pair->paths(1);
    FAIL() << "not everything came" << paths;
  }

 private:
  void step(bool posts) {
    simulated_ns() += kTurnNs;
    for (Context& context : contexts_) {
      context.pair->at(below(2)).progress();
      for (int k = below(4); k != 0; --k) {
        PairStream& stream =
            *context.streams[static_cast<std::size_t>(below(2 * static_cast<int>(kSimChannels)))];
        posts ? stream.turn() : stream.take();
      }
    }
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<Context> contexts_;
};

// Each end has lost its link on the rail that is the last one of the other.
TEST(Flaps, EndsThatGaveUpDifferentRailsMeetAgain) {
  for (std::uint64_t seed = 1; seed <= seeds(20) && !testing::Test::HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Flaps flaps(seed);
    flaps.run(200 + flaps.below(200));
    flaps.pull(0, 0);
    flaps.run(flaps.below(3));
    flaps.pull(1, 1);
    flaps.run(1 + flaps.below(300));
    flaps.mend();
    flaps.run(flaps.below(2000));
    flaps.finish();
  }
}

TEST(Flaps, ContextsThatAreSplitMeanwhileLoseNothing) {
  for (std::uint64_t seed = 1; seed <= seeds(10) && !testing::Test::HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Flaps flaps(seed);
    for (int flap = 0; flap < 12 && !testing::Test::HasFatalFailure(); ++flap) {
      const auto rail = static_cast<std::size_t>(flaps.below(kRails));
      flaps.pull(rail, flaps.below(2));
      flaps.run(1 + flaps.below(600));
      if (flaps.below(2) == 0) flaps.split();
      flaps.run(flaps.below(600));
      flaps.mend();
      flaps.run(1 + flaps.below(flaps.below(3) == 0 ? 3000 : 30));
    }
    flaps.finish();
  }
}

}  // namespace
}  // namespace weft
