// What travels between two ib interfaces, and where it lies. Internal to the module; frozen with
// the wire version.
//
// Every channel of a connection has up to three rings of slots at the receiver: one for notices, one
// for pieces, and one in memory of another device (a GPU) for payloads of pieces that come from such
// memory. Each is made when the sender first asks for it. Notice number n of a channel lies in slot n
// modulo `slots` of one of the first two; if its payload is in the third, its head is in the first. The
// sender holds a copy of the notice ring, from which it writes; so a slot's place on both sides follows
// from its number.
//
//   offset 0        48       64          128
//   slot   [unused ][ Prefix ][ WireHeader ][ payload … ]
//                   └──────────── one RDMA write with immediate ──┘
//
// What needs no slot (releases, rings asked for and given, goodbye) is a Control: a plain send into
// a buffer of the shared receive queue. A connection begins with Greetings: datagrams that may be
// lost and come twice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "verbs/transport/transport.h"

namespace weft::ib {

inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kMostQueuePairs = 4;
inline constexpr std::size_t kMostGids = 6;

// Before the header of every notice.
struct Prefix {
  std::uint32_t number = 0;    // of the notice in its channel, from 0, modulo 2^32
  std::uint32_t bytes = 0;     // of the payload that was written
  std::uint32_t released = 0;  // how many notices of this channel the sender has released
  std::uint32_t received = 0;  // how many messages the sender has taken out of its receive queue
};
static_assert(sizeof(Prefix) == 16 && std::is_trivially_copyable_v<Prefix>);

inline constexpr std::size_t kPrefixAt = kLine - sizeof(Prefix);
inline constexpr std::size_t kHeaderAt = kLine;
inline constexpr std::size_t kPayloadAt = kHeaderAt + sizeof(WireHeader);
// Bytes of a notice before its payload.
inline constexpr std::size_t kHeadBytes = kPayloadAt - kPrefixAt;
static_assert(kHeadBytes == 80);

// Which of a channel's rings.
enum class RingKind : std::uint8_t { notices = 0, pieces = 1, device = 2 };
inline constexpr std::size_t kRings = 3;

// The immediate of a notice: the slot that it was written to.
struct Immediate {
  RingKind ring = RingKind::notices;
  std::uint32_t channel = 0;
  std::uint32_t slot = 0;
};
inline constexpr std::uint32_t kMostChannels = 1U << 12;
inline constexpr std::uint32_t kMostSlots = 1U << 16;

[[nodiscard]] constexpr std::uint32_t encode(const Immediate& immediate) {
  return static_cast<std::uint32_t>(immediate.ring) << 28 | immediate.channel << 16 |
         immediate.slot;
}
[[nodiscard]] constexpr Immediate decode(std::uint32_t word) {
  return {static_cast<RingKind>(word >> 28), word >> 16 & (kMostChannels - 1),
          word & (kMostSlots - 1)};
}
static_assert(decode(encode({RingKind::pieces, 4095, 65535})).slot == 65535);
static_assert(decode(encode({RingKind::pieces, 4095, 0})).channel == 4095);

enum class ControlKind : std::uint8_t {
  releases = 1,  // `count` entries
  goodbye = 2,   // the sender closed its interface
  want = 3,      // make the ring `ring` of `channel`
  grant =
      4,  // the answer to `want`: the ring is at `address`, with `key`; address 0: there is none
  expose = 5,  // let me reach chunk `chunk` of your heap
  // The answer to `expose`: the chunk is at `address`, with `key`. Key 0: the chunk is not in the
  // heap of `heap_bytes`, or it could not be registered.
  exposed = 6,
};

struct Control {
  struct Release {
    std::uint16_t channel = 0;
    std::uint16_t unused = 0;
    std::uint32_t released = 0;
  };
  static constexpr std::size_t kReleases = 9;

  std::uint8_t version = kWireVersion;
  ControlKind kind = ControlKind::releases;
  RingKind ring = RingKind::notices;
  std::uint8_t count = 0;
  std::uint32_t received = 0;  // as in Prefix
  std::uint32_t channel = 0;
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t chunk = 0;
  std::uint64_t heap_bytes = 0;
  std::array<Release, kReleases> releases{};
};
static_assert(std::is_trivially_copyable_v<Control> && sizeof(Control) == 112);
static_assert(offsetof(Control, received) == 4 && offsetof(Control, address) == 16);
static_assert(offsetof(Control, chunk) == 24 && offsetof(Control, releases) == 40);

// The size of a receive buffer, which takes one Control.
inline constexpr std::size_t kReceiveBytes = 128;
static_assert(sizeof(Control) <= kReceiveBytes);

// Peers reach the heap in chunks of this size. Each is registered when a peer first asks for it.
// The heap takes memory from the kernel in the same unit.
inline constexpr std::uint64_t kChunkBytes = std::uint64_t{2} << 20;

// An address of a port, as peers rank it.
struct WireGid {
  std::array<std::uint8_t, 16> bytes{};
  std::uint8_t kind = 0;  // GidKind
  std::int8_t prefix_bits = -1;
  std::array<std::uint8_t, 2> unused{};
};
static_assert(sizeof(WireGid) == 20);

// The address of an interface, as put in the store.
struct Address {
  static constexpr std::uint64_t kMagic = 0x57454654'49424144;  // "WEFTIBAD"
  std::uint64_t magic = kMagic;
  std::uint32_t wire_version = kWireVersion;
  std::uint32_t rank = 0;
  std::uint32_t job = 0;
  std::uint32_t context = 0;
  std::uint32_t channels = 0;
  std::uint32_t slots = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t piece_bytes = 0;
  std::uint64_t nonce = 0;
  std::uint32_t datagrams = 0;  // number of the queue pair that takes Greetings
  std::uint16_t lid = 0;
  std::uint8_t gid_count = 0;
  std::uint8_t queue_pairs = 0;  // that a peer is connected by
  std::array<WireGid, kMostGids> gids{};
  std::uint64_t checksum = 0;  // over all of the above
};
static_assert(std::is_trivially_copyable_v<Address> && sizeof(Address) == 192);

// How far a connection is, as its sender sees it.
enum class Level : std::uint8_t {
  asking = 0,     // these are my queue pairs
  ready = 1,      // I am connected to yours
  confirmed = 2,  // and you to mine: this pair of addresses stays, you may send
  closed = 3,     // my interface is closed
  dropped = 4,    // I do not need this connection: drop your end, unless connect() gave it out
};

struct Greeting {
  static constexpr std::uint32_t kMagic = 0x57424947;  // "WBIG"
  std::uint32_t magic = kMagic;
  std::uint8_t version = kWireVersion;
  Level level = Level::asking;
  std::uint16_t context = 0;
  std::uint32_t job = 0;
  std::uint32_t rank = 0;
  std::uint64_t from = 0;  // nonce of the sender's interface
  std::uint64_t to = 0;    // nonce of the receiver's
  // The pair of addresses that this datagram travels over.
  std::array<std::uint8_t, 16> sender{};
  std::array<std::uint8_t, 16> receiver{};
  std::uint16_t channels = 0;
  std::uint8_t kind = 0;   // GidKind, of both: a port has one IP address once per RoCE version
  std::uint8_t reads = 0;  // and compare-and-swaps that the sender's device answers at a time
  std::uint32_t slots = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t piece_bytes = 0;
  std::uint32_t datagrams = 0;
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;  // ibv_mtu
  std::uint8_t queue_pairs = 0;
  std::array<std::uint32_t, kMostQueuePairs> numbers{};
  std::array<std::uint32_t, kMostQueuePairs> first_packets{};
  std::uint32_t window = 0;     // messages that the receiver may have in our receive queue
  std::uint32_t words_key = 0;  // of `words`
  std::uint64_t words = 0;      // where we keep Words for the receiver to write
  // How often these two interfaces have connected. A higher number ends what was before.
  std::uint32_t incarnation = 0;
  // How often the leader gave up a pair of addresses that it had chosen for another one.
  std::uint32_t choice = 0;
};
static_assert(std::is_trivially_copyable_v<Greeting> && sizeof(Greeting) == 152);
static_assert(offsetof(Greeting, from) == 16 && offsetof(Greeting, sender) == 32);
static_assert(offsetof(Greeting, channels) == 64 && offsetof(Greeting, kind) == 66);
static_assert(offsetof(Greeting, slots) == 68 && offsetof(Greeting, datagrams) == 88);
static_assert(offsetof(Greeting, numbers) == 96 && offsetof(Greeting, words) == 136);

// What a peer writes into our memory without a message: this must get through even if both receive
// queues are full.
struct Words {
  std::uint32_t received = 0;  // as in Prefix
};

}  // namespace weft::ib
