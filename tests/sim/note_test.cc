// What is said beside the data: notices of the control channel that come before their turn,
// goodbyes, and questions to a peer that answers nothing.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/pair.h"

namespace weft {
namespace {

PairOptions two_rails(std::uint64_t delay_0, std::uint64_t delay_1) {
  PairOptions options;
  options.rails = {{1, delay_0, 512}, {2, delay_1, 512}};
  return options;
}

Posted say(Endpoint& to, NoticeKind kind, std::string_view text) {
  WireHeader header;
  header.kind = kind;
  header.form = PieceForm::payload;
  header.bytes = static_cast<std::uint32_t>(text.size());
  return to.post_notice(kControlChannel, header, std::as_bytes(std::span(text)));
}

void expect(Endpoint& from, NoticeKind kind, std::string_view text) {
  const Notice notice = from.front(kControlChannel);
  ASSERT_NE(notice.header, nullptr);
  EXPECT_EQ(notice.header->kind, kind);
  EXPECT_EQ(notice.header->form, PieceForm::payload);
  ASSERT_EQ(notice.header->bytes, text.size());
  ASSERT_NE(notice.payload, nullptr);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(notice.payload), text.size()), text);
  from.release(kControlChannel);
}

// The failure overtakes the question before it on the faster rail, and waits for its turn aside.
TEST(Note, AFailureThatWaitsForItsTurnKeepsItsText) {
  Pair pair(two_rails(2000, 1));
  Endpoint& here = pair.from(1);
  pair.from(0).use_members(std::array{0}, std::array{0});
  ASSERT_EQ(say(pair.from(0), NoticeKind::query, "what is it?"), Posted::posted);
  pair.from(0).use_members(std::array{1}, std::array{1});
  ASSERT_EQ(say(pair.from(0), NoticeKind::failure, "rank 0: no memory"), Posted::posted);
  for (int turn = 0; turn < 20; ++turn) pair.at(1).progress();
  ASSERT_EQ(pair.rail(0).delivered(), 0U);
  ASSERT_EQ(pair.rail(1).delivered(), 1U);
  EXPECT_EQ(here.front(kControlChannel).header, nullptr);
  for (int turn = 0; turn < 3000; ++turn) pair.at(1).progress();
  expect(here, NoticeKind::query, "what is it?");
  expect(here, NoticeKind::failure, "rank 0: no memory");
}

// What a peer says of a path is in the payload; one that brings none says nothing, whatever its header claims.
TEST(Note, OneOfAPathWithoutAPayloadIsIgnored) {
  Pair pair(two_rails(1, 1));
  (void)pair.from(1);
  for (const PieceForm form : {PieceForm::inlined, PieceForm::view}) {
    WireHeader header;
    header.kind = NoticeKind::path;
    header.form = form;
    header.bytes = kControlBytes;
    ASSERT_EQ(pair.from(0).post_notice(kControlChannel, header, {}), Posted::posted);
  }
  for (int turn = 0; turn < 20; ++turn) pair.at(1).progress();
  EXPECT_TRUE(pair.lives(0) && pair.lives(1));
}

// What a peer posted on its last rail may come after the goodbye of the first.
TEST(Note, APeerHasClosedWhenAllItsLiveRailsHave) {
  Pair pair(two_rails(1, 1));
  (void)pair.from(1);
  EXPECT_FALSE(pair.from(0).peer_closed());
  pair.close(1, 0);
  EXPECT_FALSE(pair.from(0).peer_closed());
  pair.close(1, 1);
  EXPECT_TRUE(pair.from(0).peer_closed());
}

TEST(Note, ARailThatWasGivenUpIsNotWaitedForAGoodbye) {
  Pair pair(two_rails(1, 1));
  (void)pair.from(1);
  Endpoint& peer = pair.from(0);
  pair.cut(0, SimNetwork::Cut::told);
  pair.at(0).progress();
  ASSERT_FALSE(pair.lives(0));
  EXPECT_FALSE(peer.peer_closed());
  pair.close(1, 1);
  EXPECT_TRUE(peer.peer_closed());
}

TEST(Note, ARailThatEndsAfterAGoodbyeIsNotSaidToBeGivenUp) {
  for (const bool says_goodbye : {false, true}) {
    Pair pair(two_rails(1, 1));
    (void)pair.from(0);
    (void)pair.from(1);
    pair.cut(0, SimNetwork::Cut::told);
    if (says_goodbye) pair.close(1, 0);
    testing::internal::CaptureStderr();
    pair.at(0).progress();
    const bool is_said =
        testing::internal::GetCapturedStderr().find("given up") != std::string::npos;
    ASSERT_FALSE(pair.lives(0));
    EXPECT_NE(is_said, says_goodbye);
  }
}

// Rank 0 owes rank 1 a notice that nobody takes.
class Idle {
 public:
  Idle()
      : pair_(options()),
        note_(pair_.from(0), pair_.from(1), 1, 1, [](std::uint32_t) { return std::size_t{8}; }) {
    note_.turn();
  }

  // The gaps between the next `count` questions, in ms.
  std::vector<std::int64_t> gaps(std::size_t count) {
    std::vector<std::int64_t> gaps;
    std::int64_t last = simulated_ns() / kMs;
    for (int ms = 0; gaps.size() < count && ms < 100'000; ++ms) {
      const std::uint64_t before = delivered();
      pass();
      const std::int64_t now = simulated_ns() / kMs;
      // Those of one question come within a few.
      if (delivered() == before || now - last < kSilenceMs / 2) continue;
      gaps.push_back(now - last);
      last = now;
    }
    return gaps;
  }
  // Rank 1 answers.
  void answer() {
    for (int turn = 0; turn < 400; ++turn) {
      pass();
      pair_.at(1).progress();
    }
  }

  static constexpr std::int64_t kSilenceMs = 30;

 private:
  static constexpr std::int64_t kMs = 1'000'000;
  static PairOptions options() {
    PairOptions options = two_rails(4, 4);
    options.slots = 64;
    options.silence_ms = kSilenceMs;
    return options;
  }
  std::uint64_t delivered() { return pair_.rail(0).delivered() + pair_.rail(1).delivered(); }
  void pass() {
    simulated_ns() += kMs;
    for (int turn = 0; turn < 40; ++turn) pair_.at(0).progress();
    pair_.arrive(1);
  }

  Pair pair_;
  PairStream note_;
};

// Rank 0 looks once in 10 ms, and learns in two more that its question went out.
void expect_doubling(const std::vector<std::int64_t>& gaps) {
  constexpr int kMostDoublings = 7;
  for (std::size_t k = 0; k < gaps.size(); ++k) {
    const std::int64_t wait = Idle::kSilenceMs << std::min(static_cast<int>(k), kMostDoublings);
    EXPECT_GE(gaps[k], wait) << k;
    EXPECT_LE(gaps[k], wait + 30) << k;
  }
}

TEST(Note, QuestionsToAnIdlePeerBecomeRareAndNeverEnd) {
  Idle idle;
  const std::vector<std::int64_t> gaps = idle.gaps(11);
  ASSERT_EQ(gaps.size(), 11U);
  expect_doubling(gaps);
}

TEST(Note, AfterAnAnswerQuestionsBeginAnew) {
  Idle idle;
  ASSERT_EQ(idle.gaps(9).size(), 9U);
  for (int round = 0; round < 3; ++round) {
    idle.answer();
    const std::vector<std::int64_t> gaps = idle.gaps(6);
    ASSERT_EQ(gaps.size(), 6U);
    EXPECT_LE(gaps[0], 3 * Idle::kSilenceMs);
    EXPECT_LE(gaps[1], 5 * Idle::kSilenceMs);
    EXPECT_GE(gaps[5], 16 * Idle::kSilenceMs);
  }
}

}  // namespace
}  // namespace weft
