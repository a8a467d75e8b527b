// How shared memory is laid out between two ranks. Internal to the module; frozen with the wire
// version.
//
// Each direction of a pair of ranks is one Ring in the *sender's* heap. So a sender can create it,
// announce it and post without the peer's help, and a stream needs no handshake. For each channel a
// ring has `slots` headers and `payload_slots` payloads, which the sender writes, and a line with
// the count of releases, which the receiver writes.
//
// A notice has arrived when the stamp in its header is the stamp of its number. The receiver polls
// this one cache line; a small message is contained in it. Those notices that have a payload use
// the payload slots in turn.
//
// A rank's ControlBlock is where other ranks find it. It has the list of rings that the rank has
// made (each names the control block for which it was made), the bits by which strangers ask for
// attention, and the word that says how the rank sleeps.
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
inline constexpr std::uint32_t kVersion = kWireVersion << 8 | 5;
// Ranks that a control block has a bit for; as many as an edge index can name.
inline constexpr std::size_t kMostRanks = 65'536;

// How the owner of a control block rests: it is awake; it sleeps on the futex of its control block;
// or it polls descriptors, of which its bell is one.
enum Rest : std::uint32_t { kAwake = 0, kOnFutex = 1, kOnBell = 2 };

struct ControlBlock {
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
  // 1 if any bit of `askers` may be set. Every rank may set it, and the owner clears it, always by
  // exchange. A plain store would end the release sequence, and the owner might miss the bits of
  // ranks that had set it earlier.
  alignas(kLine) std::atomic<std::uint32_t> attention;
  // 1 once the owner has closed its interface.
  alignas(kLine) std::atomic<std::uint32_t> closed;
  // How the owner sleeps (Rest). The owner sets it; whoever wakes the owner clears it.
  alignas(kLine) std::atomic<std::uint32_t> sleeping;
  // The owner's bell: the number of the descriptor in the owner's process; -1 for none.
  std::atomic<std::int32_t> bell;
  // One bit for each rank that has left a notice on its control channel. So askers do not overwrite
  // each other.
  alignas(kLine) std::array<std::atomic<std::uint64_t>, kMostRanks / 64> askers;
  // How many interfaces of other ranks use the control block, and above that its generation
  // (control_block.h).
  alignas(kLine) std::atomic<std::uint64_t> uses;
};

// One direction between two interfaces. A ring is made for one control block, not for one rank: a
// rank that opens a second interface must not find old notices in the ring that was made for its
// first.
struct Ring {
  alignas(kLine) std::uint64_t peer_nonce;   // of the heap with the control block that it is for
  std::uint64_t peer_block;                  // name of that control block (control_block.h)
  std::uint64_t body;                        // offset of its body
  std::uint64_t next;                        // offset of the ring made before this one, 0 for none
  std::atomic<std::uint32_t> reads_private;  // 1: the owner may read the peer's private memory
  // 1, set by the peer, once it uses the ring no more; or by the owner, if the peer has closed.
  std::atomic<std::uint32_t> left;
};
// A ring of ours. The peer finds it by its own control block, which the ring names.
struct OwnRing {
  Ring* ring;
  std::byte* body;
};

struct ReleaseLine {
  alignas(kLine) std::atomic<std::uint64_t> released;
};

// The stamp of a header: the low bits of (index of the notice + 1), and whether the notice has a
// payload.
constexpr std::uint32_t stamp_of(std::uint64_t index, bool has_payload) {
  return static_cast<std::uint32_t>(index + 1) << 1 | (has_payload ? 1U : 0U);
}
// Whether `stamp` is that of notice number `index`, with a payload or without.
constexpr bool is_of(std::uint32_t stamp, std::uint64_t index) {
  return (stamp | 1U) == stamp_of(index, true);
}
inline std::atomic_ref<std::uint32_t> stamp_in(WireHeader* header) {
  return std::atomic_ref<std::uint32_t>(header->stamp);
}

// Where the parts of a ring's body lie: a release line per channel, all headers, all payloads.
// Headers lie side by side and not each before its payload: with a payload stride near a power of
// two all headers would fall into one cache set.
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
  std::uint64_t block;    // its name (control_block.h), in that heap
  std::uint64_t machine;  // hash of the machine's identity: both ranks must have the same
};
static_assert(std::is_trivially_copyable_v<Address>);

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

}  // namespace weft::shm
