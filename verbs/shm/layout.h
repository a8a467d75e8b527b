// How shared memory is laid out between two ranks. Internal to the module; frozen with the wire
// version.
//
// Each direction of a pair is one Ring in the *sender's* heap: so a sender can create it, announce
// it and post without the peer's help, and a stream needs no handshake. A ring has per channel a
// line that the receiver writes (its count of releases) and, written by the sender, `slots` headers
// and `payload_slots` payloads. A notice is whole when its header's stamp says its number: the
// receiver polls that one line, which for a small message is the message. Payloads are taken in
// turn by the notices that have one.
//
// A rank's Hall is where others find it: the list of rings it has made (each names the hall it is
// for), the bits by which strangers ask for attention, and the word by which it sleeps.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "verbs/memory/memory.h"
#include "verbs/transport/transport.h"

namespace weft::shm {

inline constexpr std::size_t kLine = 64;
// The version of headers, and of what is laid out here.
inline constexpr std::uint32_t kVersion = kWireVersion << 8 | 4;
// Ranks that a hall has a bit for; as many as an edge index can name.
inline constexpr std::size_t kMostRanks = 65'536;

// awake; on the futex of its hall; or polling descriptors, of which its bell is one.
enum Rest : std::uint32_t { kAwake = 0, kOnFutex = 1, kOnBell = 2 };

struct Hall {
  static constexpr std::uint64_t kMagic = 0x57454654'48414c4c;  // "WEFTHALL"
  // Constant after opening.
  alignas(kLine) std::uint64_t magic;
  std::uint32_t wire_version;
  std::uint32_t job;
  std::uint32_t rank;
  std::uint32_t context;
  std::uint32_t channels;
  std::uint32_t slots;
  std::uint32_t payload_slots;
  std::uint64_t payload_bytes;
  std::int32_t core;  // the one that the owner was bound to when it opened; -1: not bound to one
  // Offset of the newest Ring in this heap, 0 for none. Only the owner writes.
  alignas(kLine) std::atomic<std::uint64_t> rings;
  // 1 when any bit of `askers` may be set. Anyone sets, the owner clears, all by exchange: a plain
  // store would cut the release sequence by which the owner sees the bits of those who set it
  // before.
  alignas(kLine) std::atomic<std::uint32_t> attention;
  // 1 once the owner has closed its interface.
  alignas(kLine) std::atomic<std::uint32_t> closed;
  // How the owner sleeps (Rest). The owner sets, anyone clears and wakes.
  alignas(kLine) std::atomic<std::uint32_t> sleeping;
  // The end of the owner's bell that others write to, by its number in that process; -1 for none.
  std::atomic<std::int32_t> bell;
  // A bit per rank that left something on its control channel: askers do not overwrite each other.
  alignas(kLine) std::array<std::atomic<std::uint64_t>, kMostRanks / 64> askers;
};

// For one hall, not for a rank: a rank that opens a second interface must not find old notices in
// the ring that was made for its first.
struct Ring {
  alignas(kLine) std::uint64_t peer_nonce;   // of the heap with the hall that it is for
  std::uint64_t peer_hall;                   // offset of that hall
  std::uint64_t body;                        // offset of its body
  std::uint64_t next;                        // offset of the ring made before this one, 0 for none
  std::atomic<std::uint32_t> reads_private;  // 1: the owner may read the peer's private memory
  std::atomic<std::uint32_t> left;           // 1 once the peer looks at the body no more; it sets
};
// One's own, which a peer finds by its hall.
struct OwnRing {
  Ring* ring;
  std::byte* body;
};

struct ReleaseLine {
  alignas(kLine) std::atomic<std::uint64_t> released;
};

// What a header's stamp is: the low bits of (index of the notice + 1), and whether it has a payload.
constexpr std::uint32_t stamp_of(std::uint64_t index, bool has_payload) {
  return static_cast<std::uint32_t>(index + 1) << 1 | (has_payload ? 1U : 0U);
}
// Whether `stamp` is that of the notice, with a payload or without.
constexpr bool is_of(std::uint32_t stamp, std::uint64_t index) {
  return (stamp | 1U) == stamp_of(index, true);
}

// Where the parts of a ring's body lie: a release line per channel, all headers, all payloads.
// Headers lie side by side, not each before its payload: payload strides near a power of two would
// put them all in one cache set.
struct Geometry {
  std::uint32_t channels;
  std::uint32_t slots;          // headers of a channel
  std::uint32_t payload_slots;  // payloads of a channel
  std::size_t payload_bytes;    // of one, whole cache lines

  // All but the payloads.
  [[nodiscard]] std::size_t control_bytes() const {
    return channels * sizeof(ReleaseLine) + std::size_t{channels} * slots * sizeof(WireHeader);
  }
  [[nodiscard]] std::size_t body_bytes() const {
    return control_bytes() + std::size_t{channels} * payload_slots * payload_bytes;
  }
  [[nodiscard]] static ReleaseLine* release_line(std::byte* body, std::uint32_t channel) {
    return reinterpret_cast<ReleaseLine*>(body) + channel;
  }
  [[nodiscard]] WireHeader* headers(std::byte* body, std::uint32_t channel) const {
    return reinterpret_cast<WireHeader*>(body + channels * sizeof(ReleaseLine)) +
           std::size_t{channel} * slots;
  }
  [[nodiscard]] std::byte* payloads(std::byte* body, std::uint32_t channel) const {
    return body + control_bytes() + std::size_t{channel} * payload_slots * payload_bytes;
  }
};

inline Geometry geometry_of(const InterfaceOptions& options) {
  const std::size_t payload =
      options.payload_bytes < kControlBytes ? kControlBytes : options.payload_bytes;
  const std::uint32_t payloads = options.payload_slots == 0 ? options.slots : options.payload_slots;
  return {options.channels, options.slots, payloads, (payload + kLine - 1) / kLine * kLine};
}

// The address of an interface, as put in the store.
struct Address {
  std::uint32_t wire_version;
  std::uint32_t rank;
  HeapIdentity heap;
  std::uint64_t hall;     // offset in that heap
  std::uint64_t machine;  // hash of the host's identity: shared memory does not leave it
};
static_assert(std::is_trivially_copyable_v<Address>);

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

}  // namespace weft::shm
