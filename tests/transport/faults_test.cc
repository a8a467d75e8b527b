// Conformance between processes when something goes wrong that a user's own devices survive: a peer
// that stops for a while, an interface that closes under load. (A peer that is killed:
// processes_test.cc; a path that is given up: path_test.cc.) Every byte is looked at.
#include <sys/wait.h>

#include <csignal>

#include "tests/transport/ranks.h"
#include "tests/transport/shared_buffer.h"

namespace weft {
namespace {

class Faults : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(Faults);

constexpr std::size_t kBytes = 700;

// A stream of numbered notices in each direction between this rank and a peer.
struct Talk {
  Endpoint& peer;
  std::uint32_t sent = 0;
  std::uint32_t received = 0;

  void send_one() {
    const Posted posted =
        peer.post_notice(1, numbered_header(sent), numbered_payload(sent, kBytes));
    if (posted == Posted::posted) ++sent;
  }
  void take_one() {
    if (peer.front(1).header == nullptr) return;
    EXPECT_TRUE(is_number(peer.front(1), received++, kBytes));
    peer.release(1);
  }
};

// Returns once the process has stopped.
void stop(const FreshProcess& process) {
  int status = 0;
  ASSERT_EQ(::kill(process.pid(), SIGSTOP), 0);
  ASSERT_EQ(waitpid(process.pid(), &status, WUNTRACED), process.pid());
  ASSERT_TRUE(WIFSTOPPED(status)) << "rank 1 ended instead of stopping";
}

TEST_P(Faults, AStoppedPeerGoesOnWhereItWas) {
  constexpr std::uint32_t kHalf = 200;
  enum Word : Rank { half_way, stopped, full };
  const SharedBoard board;
  const SharedBoard told;
  FreshProcess one([&] {
    RankProcess rank(GetParam(), 1, 2, *board, small_options());
    Talk talk{rank.link(0)};
    EXPECT_TRUE(rank.eventually([&] {
      talk.take_one();
      return talk.received == 2 * kHalf;
    }));
    rank.meet();
  });
  FreshProcess zero([&] {
    RankProcess rank(GetParam(), 0, 2, *board, small_options());
    Talk talk{rank.link(1)};
    const auto send_until = [&](auto done) {
      return rank.eventually([&] {
        if (talk.sent < 2 * kHalf) talk.send_one();
        return done();
      });
    };
    ASSERT_TRUE(send_until([&] { return talk.sent == kHalf; }));
    told->put(half_way, "yes");
    (void)told->get(stopped);
    EXPECT_TRUE(send_until(
        [&] { return talk.peer.posted(1) - talk.peer.released(1) == small_options().slots; }));
    EXPECT_TRUE(talk.peer.failure().ok()) << talk.peer.failure().to_string();
    told->put(full, "yes");
    EXPECT_TRUE(send_until([&] { return talk.peer.released(1) == 2 * kHalf; }));
    rank.meet();
  });
  (void)told->get(half_way);
  ASSERT_NO_FATAL_FAILURE(stop(one));
  told->put(stopped, "yes");
  (void)told->get(full);
  ASSERT_EQ(::kill(one.pid(), SIGCONT), 0);
  report(one.join(), "rank 1");
  report(zero.join(), "rank 0");
}

// Rank 1 closes while ranks 0 and 2 stream to it, write to its memory, and talk to each other.
void close_in_the_middle(RankProcess& rank, std::span<std::byte> buffer) {
  std::array<Talk, 2> talks{Talk{rank.link(0)}, Talk{rank.link(2)}};
  for (const Talk& talk : talks) {
    const RemoteBuffer described = describe_memory(buffer.data(), buffer.size());
    WireHeader header;
    header.form = described.form;
    header.word = described.word;
    ASSERT_EQ(talk.peer.post_notice(2, header, {}), Posted::posted);
  }
  EXPECT_TRUE(rank.eventually([&] {
    for (Talk& talk : talks) talk.take_one();
    return talks[0].received >= 100 && talks[1].received >= 100;
  }));
  rank.interface().close();
}

// The one-sided work of a rank: `kMostWrites` at a time; how often each ticket completed.
class Writes {
 public:
  Writes(Interface& own, Endpoint& peer, const RemoteBuffer& remote, std::size_t bytes)
      : own_(own), peer_(peer), remote_(remote), local_(bytes) {}

  void post_one() {
    if (done_.size() - ended_ >= kMostWrites) return;
    if (peer_.post_write(local_, remote_, done_.size()) == Posted::posted) done_.push_back(0);
  }
  void collect() {
    std::array<Completion, kMostWrites> completions;
    const std::size_t count = own_.poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_LT(completions[i].ticket, done_.size());
      EXPECT_EQ(++done_[completions[i].ticket], 1) << "ticket " << completions[i].ticket;
    }
    ended_ += count;
  }
  [[nodiscard]] bool all_ended() const { return ended_ == done_.size(); }

 private:
  static constexpr std::size_t kMostWrites = 8;
  Interface& own_;
  Endpoint& peer_;
  RemoteBuffer remote_;
  std::vector<std::byte> local_;
  std::vector<int> done_;
  std::size_t ended_ = 0;
};

void live_through_it(RankProcess& rank, std::size_t bytes) {
  constexpr std::uint32_t kAfter = 300;
  Talk other{rank.link(2 - rank.self())};
  Talk closing{rank.link(1)};
  Endpoint& peer = closing.peer;
  ASSERT_TRUE(rank.eventually([&] { return peer.front(2).header != nullptr; }));
  const WireHeader where = *peer.front(2).header;
  Writes writes(rank.interface(), peer, {where.form, where.word, bytes}, bytes);
  const auto gone = [&] { return peer.peer_closed() || !peer.failure().ok(); };
  EXPECT_TRUE(rank.eventually([&] {
    closing.send_one();
    writes.post_one();
    writes.collect();
    other.take_one();
    if (other.sent < kAfter / 2) other.send_one();
    return gone();
  })) << "rank 1 has closed and nobody was told";
  EXPECT_TRUE(rank.eventually([&] {
    writes.collect();
    other.take_one();
    if (other.sent < kAfter) other.send_one();
    return writes.all_ended() && other.received == kAfter && other.peer.released(1) == kAfter;
  }));
}

TEST_P(Faults, AnInterfaceClosedUnderLoadLeavesTheOthersAlone) {
  run_ranks(GetParam(), 3, [](RankProcess& rank) {
    constexpr std::size_t kBuffer = 100'000;
    SharedBuffer buffer(kBuffer);
    if (rank.self() == 1) {
      close_in_the_middle(rank, buffer.bytes());
    } else {
      live_through_it(rank, kBuffer);
    }
  });
}

}  // namespace
}  // namespace weft
