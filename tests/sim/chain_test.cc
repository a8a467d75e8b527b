// One-sided work at a peer that never answers again.
#include "engine/one_sided/chain.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>

#include "tests/sim/pair.h"

namespace weft {
namespace {

// The peer has left, and its card says nothing more: the work is given up with the connection.
TEST(Chain, ToAPeerThatHasLeftEndsThoughNothingAnswers) {
  PairOptions options;
  options.rails.push_back({1, 5, 512});
  options.silence_ms = 3'600'000;
  Pair pair(options);
  std::uint64_t theirs = 0;
  const std::uint64_t value = 7;
  const Region region = pair.at(1).expose(std::as_writable_bytes(std::span(&theirs, 1))).value();
  Endpoint& link = pair.from(0);
  const std::uint32_t number = link.import_region(region.key).value();
  constexpr std::int64_t kPatienceNs = 3'600'000'000'000;

  one_sided::Chain chain;
  chain.begin({1, &link, {{PieceForm::region, 0, sizeof theirs, number}, nullptr}}, kPatienceNs);
  chain.write(&value, sizeof value, 0);
  pair.cut(0, SimNetwork::Cut::silent);
  EXPECT_TRUE(chain.advance());
  EXPECT_TRUE(chain.is_busy());
  chain.give_up(Status(Code::peer_left, "rank 1 left", 1));
  EXPECT_FALSE(chain.is_over());
  const Deadline end = Deadline::after_ms(30'000);
  while (!chain.is_over() && !end.passed()) {
    simulated_ns() += kTurnNs;
    pair.at(0).progress();
    std::array<Completion, 4> ended;
    const std::size_t count = pair.at(0).poll(ended);
    for (std::size_t e = 0; e < count; ++e)
      WorkOwner::of(ended[e].ticket).work_ended(ended[e].status);
    (void)chain.advance();
  }
  EXPECT_TRUE(chain.is_over());
  EXPECT_EQ(chain.status().code(), Code::peer_left);
  EXPECT_EQ(theirs, 0U);
}

}  // namespace
}  // namespace weft
