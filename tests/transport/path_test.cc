// Conformance: a path that is given up in the middle of a stream loses nothing and doubles nothing,
// and carries again once it is connected anew. Two interfaces of each rank make a bond, as the
// engine's rails do; the bytes of every notice are looked at.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/transport/group.h"
#include "tests/transport/shared_buffer.h"
#include "verbs/bond/bond.h"

namespace weft {
namespace {

class Path : public testing::TestWithParam<TransportFactory> {};
WEFT_FOR_ALL_TRANSPORTS(Path);

constexpr std::uint32_t kChannel = 1;
constexpr std::uint32_t kRails = 2;
constexpr std::uint32_t kWindow = 64;  // notices whose memory is kept: more than are ever unsettled

// One rank: its bond, and the members that the bond owns.
struct Side {
  std::unique_ptr<Interface> bond;
  std::vector<Interface*> members;
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
  std::vector<std::vector<std::byte>> sources = std::vector<std::vector<std::byte>>(kWindow);
};

// Two ranks of this process, owned by one thread.
class BondedPair {
 public:
  explicit BondedPair(const TransportFactory& transport) : transport_(transport) {
    for (Rank rank = 0; rank < 2; ++rank) open(rank);
  }
  // Side by side, as a peer may be needed for it; before the memory that pieces come from goes.
  ~BondedPair() {
    std::thread other([this] { sides_[1].bond->close(); });
    sides_[0].bond->close();
    other.join();
  }
  BondedPair(const BondedPair&) = delete;
  BondedPair& operator=(const BondedPair&) = delete;

  [[nodiscard]] Endpoint& link(Rank from) {
    return *must(sides_[from].bond->connect(1 - from, sides_[1 - from].bond->address()));
  }
  // The endpoint that the bond has now on a rail.
  [[nodiscard]] Endpoint& path(Rank from, std::size_t rail) {
    return *must(
        sides_[from].members[rail]->connect(1 - from, sides_[1 - from].members[rail]->address()));
  }
  [[nodiscard]] bool connects_again() {
    return sides_[0].members[0]->reconnect(1, "no address").status().code() != Code::unavailable;
  }
  [[nodiscard]] Interface& bond(Rank rank) { return *sides_[rank].bond; }
  template <typename Predicate>
  bool eventually(Predicate done) {
    return weft::eventually([&] {
      for (const Side& side : sides_) side.bond->progress();
      return done();
    });
  }
  [[nodiscard]] std::uint32_t received(Rank rank) const { return sides_[rank].received; }

  // Both ranks go on sending and taking until `done`.
  template <typename Predicate>
  bool stream_until(Predicate done) {
    return weft::eventually([&] {
      for (Rank rank = 0; rank < 2; ++rank) {
        while (send_one(rank)) {  // a rail that has nothing to wait for carries it all
        }
        sides_[rank].bond->progress();
        take(rank);
      }
      return testing::Test::HasFailure() || done();
    });
  }

 private:
  void open(Rank rank) {
    InterfaceOptions options = small_options();
    options.slots = 16;
    BondOptions bond;
    bond.rank = rank;
    bond.channels = options.channels;
    bond.slots = options.slots;
    bond.payload_bytes = options.payload_bytes;
    bond.return_ms = 50;
    std::vector<BondMember> rails;
    for (std::uint32_t rail = 0; rail < kRails; ++rail) {
      rails.push_back({transport_.name, std::to_string(rail), [=, this](AddressResolver resolver) {
                         auto member = transport_.open(rank, options, std::move(resolver));
                         if (member.ok()) sides_[rank].members.push_back(member->get());
                         return member;
                       }});
    }
    sides_[rank].bond =
        must(open_bond(bond, nullptr, std::move(rails), [this](Rank peer) -> Result<std::string> {
          return sides_[peer].bond->address();
        }));
  }

  // Small notices and pieces in turn.
  static std::size_t bytes_of(std::uint32_t n) { return n % 2 == 0 ? 20'001 : n % 300; }

  bool send_one(Rank rank) {
    Side& side = sides_[rank];
    Endpoint& peer = link(rank);
    if (side.sent >= peer.settled(kChannel) + kWindow) return false;
    std::vector<std::byte>& source = side.sources[side.sent % kWindow];
    source = numbered_payload(side.sent, bytes_of(side.sent));
    WireHeader header = numbered_header(side.sent);
    header.bytes = static_cast<std::uint32_t>(source.size());
    const Posted posted = side.sent % 2 == 0 ? peer.post_piece(kChannel, header, source)
                                             : peer.post_notice(kChannel, header, source);
    if (posted == Posted::posted) ++side.sent;
    return posted == Posted::posted;
  }

  void take(Rank rank) {
    Side& side = sides_[rank];
    Endpoint& peer = link(rank);
    if (peer.front(kChannel).header == nullptr) return;
    EXPECT_TRUE(is_number(peer.front(kChannel), side.received, bytes_of(side.received)));
    ++side.received;
    peer.release(kChannel);
  }

  const TransportFactory transport_;
  std::array<Side, 2> sides_;
};

// Posts a large write, keeps its path busy with a piece, and posts a word behind it: another path
// would deliver the word first.
void publish(BondedPair& pair, std::span<const std::byte> data, const std::uint64_t& round,
             std::span<std::byte> target) {
  static const std::vector<std::byte> piece = numbered_payload(1, 20'001);
  WireHeader header = numbered_header(1);
  header.bytes = static_cast<std::uint32_t>(piece.size());
  Endpoint& peer = pair.link(0);
  const RemoteBuffer all = pair.bond(1).describe(target.data(), data.size());
  ASSERT_EQ(peer.post_write(data, all, 1), Posted::posted);
  ASSERT_EQ(peer.post_piece(kChannel, header, piece), Posted::posted);
  const RemoteBuffer word = pair.bond(1).describe(target.data() + data.size(), sizeof round);
  ASSERT_EQ(peer.post_write(std::as_bytes(std::span(&round, 1)), word, 2), Posted::posted);
}

TEST_P(Path, OneSidedWorkKeepsItsOrderWherePiecesTakeBothRails) {
  if (GetParam().name == "shm") GTEST_SKIP() << "memory is one path";
  constexpr std::size_t kBytes = std::size_t{256} << 10;
  BondedPair pair(GetParam());
  SharedBuffer target(kBytes + 8);
  auto& word = *reinterpret_cast<std::uint64_t*>(target.bytes().data() + kBytes);
  for (std::uint64_t round = 1; round <= 5; ++round) {
    const std::vector<std::byte> data(kBytes, static_cast<std::byte>(round));
    publish(pair, data, round, target.bytes());
    ASSERT_TRUE(pair.eventually([&] {
      return std::atomic_ref<std::uint64_t>(word).load(std::memory_order_acquire) == round;
    }));
    ASSERT_TRUE(std::ranges::equal(target.bytes().first(kBytes), data)) << round;
    std::array<Completion, 2> ends;
    std::size_t count = 0;
    ASSERT_TRUE(pair.eventually([&] {
      count += pair.bond(0).poll(std::span(ends).subspan(count));
      return count == ends.size();
    }));
    Endpoint& peer = pair.link(1);
    ASSERT_TRUE(pair.eventually([&] { return peer.front(kChannel).header != nullptr; }));
    peer.release(kChannel);
    ASSERT_TRUE(pair.eventually([&] { return pair.link(0).released(kChannel) == round; }));
  }
}

// What was posted before the path broke and is not known to have failed must not be overtaken by
// what takes the other rail.
TEST_P(Path, OneSidedWorkLeavesABrokenRailOnlyWhenItsFailureIsKnown) {
  if (GetParam().name == "shm") GTEST_SKIP() << "memory has no path that could be given up";
  BondedPair pair(GetParam());
  SharedBuffer target(8);
  const RemoteBuffer word = pair.bond(1).describe(target.bytes().data(), 8);
  const std::vector<std::byte> local(8, std::byte{1});
  Endpoint& peer = pair.link(0);
  ASSERT_EQ(peer.post_write(local, word, 1), Posted::posted);
  for (std::size_t rail = 0; rail < kRails; ++rail) {
    if (pair.path(0, rail).at_work())
      pair.path(0, rail).abandon(Status(Code::unavailable, "given up by the test", 1));
  }
  ASSERT_EQ(peer.post_write(local, word, 2), Posted::posted);
  std::array<Completion, 2> ends;
  std::size_t count = 0;
  ASSERT_TRUE(pair.eventually([&] {
    count += pair.bond(0).poll(std::span(ends).subspan(count));
    return count == ends.size();
  }));
  for (const Completion& end : ends) EXPECT_FALSE(end.status.ok()) << end.ticket;
  EXPECT_FALSE(peer.at_work());
  Completion last;
  ASSERT_TRUE(pair.eventually([&] { return peer.post_write(local, word, 3) == Posted::posted; }));
  ASSERT_TRUE(pair.eventually([&] { return pair.bond(0).poll({&last, 1}) == 1; }));
  EXPECT_TRUE(last.status.ok()) << last.status.to_string();
}

TEST_P(Path, GivenUpInTheMiddleOfAStreamItLosesNothingAndCarriesAgain) {
  if (GetParam().name == "shm") GTEST_SKIP() << "memory has no path that could be given up";
  constexpr std::uint32_t kSome = 50;
  BondedPair pair(GetParam());
  for (Rank breaker = 0; breaker < 2; ++breaker) {
    const auto both_have = [&](std::uint32_t more, std::uint32_t since) {
      return pair.received(0) >= since + more && pair.received(1) >= since + more;
    };
    const std::uint32_t before = std::max(pair.received(0), pair.received(1));
    ASSERT_TRUE(pair.stream_until([&] {
      return both_have(kSome, before) && pair.path(breaker, 1).posted(kChannel) > 0;
    })) << "both rails carry";
    pair.path(breaker, 1).abandon(Status(Code::unavailable, "given up by the test", 1 - breaker));
    const std::uint32_t broken = std::max(pair.received(0), pair.received(1));
    ASSERT_TRUE(pair.stream_until([&] { return both_have(2 * kSome, broken); }));
    if (!pair.connects_again()) return;
    ASSERT_TRUE(pair.stream_until([&] {
      const Endpoint& again = pair.path(breaker, 1);
      return again.failure().ok() && again.posted(kChannel) > 0;
    })) << "the rail carries again";
  }
}

}  // namespace
}  // namespace weft
