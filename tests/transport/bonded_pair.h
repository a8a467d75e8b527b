// BondedPair: two ranks of this process, each with a bond of several interfaces of one transport, as the
// engine's rails are; and streams of numbered notices between them, every byte of which is looked at.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/transport/group.h"
#include "verbs/bond/bond.h"

namespace weft {

// Two ranks of this process, owned by one thread.
class BondedPair {
 public:
  static constexpr std::uint32_t kChannel = 1;
  static constexpr std::uint32_t kRails = 2;

  explicit BondedPair(const TransportFactory& transport, std::uint32_t rails = kRails)
      : transport_(transport), rail_count_(rails) {
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
  [[nodiscard]] Endpoint& link_to_self(Rank rank) {
    return *must(sides_[rank].bond->connect(rank, sides_[rank].bond->address()));
  }
  // The endpoint that the bond has now on a rail.
  [[nodiscard]] Endpoint& path(Rank from, std::size_t rail) {
    return *must(
        sides_[from].members[rail]->connect(1 - from, sides_[1 - from].members[rail]->address()));
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
  // Notices whose memory is kept: more than are ever unsettled.
  static constexpr std::uint32_t kWindow = 64;

  // One rank: its bond, and the members that the bond owns.
  struct Side {
    std::unique_ptr<Interface> bond;
    std::vector<Interface*> members;
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
    std::vector<std::vector<std::byte>> sources = std::vector<std::vector<std::byte>>(kWindow);
  };

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
    for (std::uint32_t rail = 0; rail < rail_count_; ++rail) {
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
    if (side.sent >= peer.locally_completed(kChannel) + kWindow) return false;
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
  const std::uint32_t rail_count_;
  std::array<Side, 2> sides_;
};

}  // namespace weft
