// Mail between two ranks over simulated rails: messages of any length arrive whole and in order, also
// when a rail is cut in the middle of one or cables come and go, and pieces that do not fit are an error.
#include "engine/mail/mail.h"

#include <random>

#include "tests/base/sanitized.h"
#include "tests/sim/pair.h"

namespace weft {
namespace {

constexpr std::uint32_t kChannel = 1;

PairOptions two_rails() {
  PairOptions options;
  options.rails = {SimOptions{.seed = 1}, SimOptions{.seed = 2}};
  return options;
}

std::vector<std::byte> message_of(std::uint32_t number, std::size_t bytes) {
  std::vector<std::byte> message(bytes);
  for (std::size_t i = 0; i < bytes; ++i) message[i] = static_cast<std::byte>(number * 31 + i);
  return message;
}

// A rank's mail, and what has come to it.
class Desk {
 public:
  Desk(Pair& pair, Rank rank, std::size_t most_bytes = 1 << 20)
      : pair_(pair), rank_(rank), mail_(options(most_bytes), [this](Rank) -> Result<Endpoint*> {
          return &pair_.from(rank_);
        }) {
    mail_.hear(1 - rank, pair.from(rank));
  }

  Status send(std::size_t bytes) { return mail_.send(1 - rank_, message_of(sent_++, bytes)); }
  void turn() {
    (void)pair_.at(rank_).progress();
    (void)mail_.advance([this](Rank from, Mail::Message message) {
      EXPECT_EQ(from, 1 - rank_);
      came_.emplace_back(message.begin(), message.end());
    });
  }
  [[nodiscard]] const std::vector<std::vector<std::byte>>& came() const { return came_; }
  [[nodiscard]] Mail& mail() { return mail_; }

 private:
  static MailOptions options(std::size_t most_bytes) {
    return {.channel = kChannel, .payload_bytes = kSimPayload, .most_bytes = most_bytes};
  }

  Pair& pair_;
  Rank rank_;
  Mail mail_;
  std::uint32_t sent_ = 0;
  std::vector<std::vector<std::byte>> came_;
};

// Both ranks write messages of random lengths, while `meanwhile(turn)` does what it likes.
void exchange(std::uint64_t seed, const std::function<void(Pair&, int turn)>& meanwhile) {
  SCOPED_TRACE(seed);
  constexpr std::size_t kMessages = 60;
  constexpr int kMostTurns = 60'000;
  Pair pair(two_rails());
  Desk desks[] = {{pair, 0}, {pair, 1}};
  std::mt19937_64 random(seed);
  std::vector<std::size_t> sizes[2];
  for (int turn = 0; turn < kMostTurns; ++turn) {
    simulated_ns() += kTurnNs;
    meanwhile(pair, turn);
    for (const Rank rank : {0, 1}) {
      auto& own = sizes[rank];
      if (own.size() < kMessages && random() % 4 == 0) {
        own.push_back(1 + random() % (random() % 5 == 0 ? 2000 : 100));
        ASSERT_TRUE(desks[rank].send(own.back()).ok());
      }
      desks[rank].turn();
      ASSERT_TRUE(desks[rank].mail().failure().ok()) << desks[rank].mail().failure().to_string();
    }
    if (desks[0].came().size() == kMessages && desks[1].came().size() == kMessages) break;
  }
  for (const Rank rank : {0, 1}) {
    const auto& came = desks[rank].came();
    ASSERT_EQ(came.size(), kMessages) << pair.paths(rank);
    for (std::uint32_t k = 0; k < kMessages; ++k)
      EXPECT_EQ(came[k], message_of(k, sizes[1 - rank][k])) << "message " << k;
    EXPECT_TRUE(desks[rank].mail().is_sent());
    EXPECT_EQ(desks[rank].mail().counts().messages_read, kMessages);
  }
}

TEST(SimMail, ArrivesWholeAndInOrder) {
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) exchange(seed, [](Pair&, int) {});
}

TEST(SimMail, GoesOnOverTheOtherRail) {
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
    const int when = static_cast<int>(30 + seed % 90);
    const auto how = seed % 2 == 0 ? SimNetwork::Cut::told : SimNetwork::Cut::silent;
    exchange(seed, [&](Pair& pair, int turn) {
      if (turn == when) pair.cut(seed % 2, how);
    });
  }
}

// On both rails and at both ends, one cable at a time.
TEST(SimMail, GoesOnWhileCablesComeAndGo) {
  for (std::uint64_t seed = 1; seed <= seeds(40); ++seed) {
    std::mt19937_64 random(seed * 7919);
    std::size_t rail = 0;
    bool is_out = false;
    int when = static_cast<int>(random() % 60);
    exchange(seed, [&](Pair& pair, int turn) {
      if (turn != when) return;
      is_out = !is_out;
      if (is_out) {
        rail = random() % 2;
        pair.cut(rail, SimNetwork::Cut::pulled, static_cast<Rank>(random() % 2));
      } else {
        pair.rail(rail).mend();
      }
      when += 1 + static_cast<int>(random() % (random() % 2 == 0 ? 30 : 800));
    });
  }
}

TEST(SimMail, AMessageThatIsTooLongIsRefused) {
  Pair pair(two_rails());
  Desk desk(pair, 0, 1000);
  EXPECT_TRUE(desk.send(1000).ok());
  const Status status = desk.send(1001);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.text().find("1001 bytes to rank 1"), std::string_view::npos) << status.text();
}

// Sends one piece as it is, and returns what the reader makes of it.
Status read_of(WireHeader piece, std::size_t most_bytes) {
  Pair pair(two_rails());
  Desk reader(pair, 1, most_bytes);
  const std::vector<std::byte> bytes(piece.bytes);
  EXPECT_NE(pair.from(0).post_notice(kChannel, piece, bytes), Posted::full);
  for (int turn = 0; turn < 200 && reader.mail().failure().ok(); ++turn) {
    simulated_ns() += kTurnNs;
    (void)pair.at(0).progress();
    reader.turn();
  }
  EXPECT_TRUE(reader.came().empty());
  return reader.mail().failure();
}

TEST(SimMail, PiecesThatDoNotFitAreAnErrorThatNamesTheRank) {
  WireHeader piece;
  piece.kind = NoticeKind::mail;
  piece.form = PieceForm::payload;
  piece.piece = 1;  // the first one is 0
  piece.bytes = 8;
  const Status order = read_of(piece, 1000);
  EXPECT_EQ(order.code(), Code::mismatch);
  EXPECT_EQ(order.rank(), 0);
  EXPECT_NE(order.text().find("out of order"), std::string_view::npos) << order.text();
  piece.piece = 0;
  const Status length = read_of(piece, 7);
  EXPECT_NE(length.text().find("longer than 7 bytes"), std::string_view::npos) << length.text();
  piece.kind = NoticeKind::data;
  EXPECT_FALSE(read_of(piece, 1000).ok());
}

}  // namespace
}  // namespace weft
