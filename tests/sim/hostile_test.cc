// A bond whose peer says what it likes: notices, pieces and the bond's own words, changed on the way,
// while rails are cut and come back. Nothing of it ends the process or goes on for ever; that messages
// are lost, changed or refused is the peer's doing.
#include <algorithm>
#include <random>

#include "tests/base/sanitized.h"
#include "tests/sim/pair.h"

namespace weft {
namespace {

// One in `one_in` notices has up to three bytes changed.
PairOptions hostile_rails(std::uint64_t seed, unsigned one_in, std::mt19937_64& random) {
  PairOptions options;
  for (std::uint64_t rail = 0; rail < 2; ++rail) {
    SimOptions& sim = options.rails.emplace_back(SimOptions{seed * 31 + rail, 1 + seed % 10, 512});
    sim.change = [&random, one_in](std::span<std::byte> header, std::span<std::byte> payload) {
      if (random() % one_in != 0) return;
      for (std::uint64_t left = 1 + random() % 3; left > 0; --left) {
        const std::span<std::byte> part = payload.empty() || random() % 2 == 0 ? header : payload;
        constexpr std::byte kExtremes[]{std::byte{0}, std::byte{1}, std::byte{0x7f},
                                        std::byte{0xff}};
        std::byte& at = part[random() % part.size()];
        at = random() % 2 == 0 ? static_cast<std::byte>(random()) : kExtremes[random() % 4];
      }
    };
  }
  return options;
}

// Posts and takes by chance, at both ends.
void run_course(std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr std::array<unsigned, 4> kOneIn{2, 8, 32, 128};
  Pair pair(hostile_rails(seed, kOneIn[seed % kOneIn.size()], random));
  Endpoint* const ends[]{&pair.from(0), &pair.from(1)};
  const std::vector<std::byte> source(512);
  constexpr auto kCuts = std::array{SimNetwork::Cut::told, SimNetwork::Cut::half,
                                    SimNetwork::Cut::silent, SimNetwork::Cut::late};
  for (int turn = 0; turn < 1500; ++turn) {
    simulated_ns() += kTurnNs;
    if (random() % 300 == 0) pair.cut(random() % 2, kCuts[random() % kCuts.size()]);
    if (random() % 100 == 0) pair.rail(random() % 2).mend();
    const auto rank = static_cast<Rank>(random() % 2);
    pair.at(rank).progress();
    Endpoint& end = *ends[rank];
    const auto channel = static_cast<std::uint32_t>(random() % kSimChannels);
    if (end.front(channel).header != nullptr) end.release(channel);
    WireHeader header;
    header.form = PieceForm::payload;
    header.bytes = static_cast<std::uint32_t>(random() % (random() % 3 == 0 ? 512 : kSimPayload));
    const std::span<const std::byte> bytes = std::span(source).first(header.bytes);
    if (channel == kControlChannel) continue;
    if (bytes.size() <= kSimPayload)
      (void)end.post_notice(channel, header, bytes);
    else
      (void)end.post_piece(channel, header, bytes);
  }
}

TEST(HostilePeer, WhatItSaysOverABondNeverFaults) {
  for (std::uint64_t seed = 1; seed <= seeds(400); ++seed) run_course(seed);
}

}  // namespace
}  // namespace weft
