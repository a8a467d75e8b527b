// Regions: memory that its owner exposes to one-sided work as a whole, as all transports see it:
// the key by which a peer names it, the bounds of work on it, and the numbers of regions.
// Transports build on this; programs use transport.h.
//
// A key is one RegionKey for each interface that exposed the memory: one for an interface alone,
// one for each member of a bond. An endpoint looks for the one of the interface that it leads to.
//
// Threads: pure functions, and numbers that any thread may take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "verbs/base/base.h"
#include "verbs/transport/header.h"
#include "verbs/transport/one_sided.h"

namespace weft {

// What Interface::expose() gives.
struct Region {
  std::uint32_t number = 0;  // by which the owner withdraws it
  std::string key;           // by which peers import it; opaque to all but the transport
};

// The longest key, for each way out.
inline constexpr std::size_t kRegionKeyBytes = 128;

// Which transport made a key.
enum class RegionWay : std::uint8_t { shm = 1, ib = 2, ucx = 3, test = 255 };

// What a key says of one interface. Frozen with the wire version.
struct RegionKey {
  static constexpr std::uint32_t kMagic = 0x59454B57;  // "WKEY"
  std::uint32_t magic = kMagic;
  std::uint8_t version = kWireVersion;
  RegionWay way = RegionWay::test;
  PieceForm form = PieceForm::process;  // what `word` is: an offset in the heap, or an address
  std::uint8_t unused = 0;
  std::uint64_t owner = 0;  // tells the interface that exposed it from all others of its transport
  std::uint64_t word = 0;
  std::uint64_t bytes = 0;
  std::uint32_t number = 0;  // Region::number, for that interface
  std::uint32_t access = 0;  // ib: the rkey
  std::uint64_t mark = 0;    // shm: where the owner says whether it is exposed (verbs/shm/marks.h)
  std::uint64_t exposure = 0;  // shm: what stands there while it is
  std::uint64_t checksum = 0;  // of all before
};
static_assert(std::is_trivially_copyable_v<RegionKey> && sizeof(RegionKey) == 64);
static_assert(sizeof(RegionKey) <= kRegionKeyBytes);
static_assert(offsetof(RegionKey, owner) == 8 && offsetof(RegionKey, bytes) == 24);
static_assert(offsetof(RegionKey, number) == 32 && offsetof(RegionKey, mark) == 40);
static_assert(offsetof(RegionKey, checksum) == 56);

// The key's bytes; the checksum is set here.
[[nodiscard]] std::string encode(RegionKey key);
// ok if `keys` is a sequence of whole and undamaged RegionKeys; else `mismatch`.
[[nodiscard]] Status check_region_keys(std::string_view keys, Rank peer);
// The one among `keys` that the interface `owner` has made; `mismatch` if none is, or if the bytes
// are no keys.
[[nodiscard]] Result<RegionKey> find_region_key(std::string_view keys, RegionWay way,
                                                std::uint64_t owner, Rank peer);

// Whether the work stays inside a region of `bytes` that begins at address `begin` at its owner. No
// sum here can overflow, and a request of no bytes touches nothing.
[[nodiscard]] WorkVerdict check_region(const WorkRequest& work, std::uint64_t begin,
                                       std::uint64_t bytes);

// A number that no other region of this process has, exposed or imported, and never 0. So a number
// that is used with the wrong endpoint names nothing there.
[[nodiscard]] std::uint32_t new_region_number();

}  // namespace weft
