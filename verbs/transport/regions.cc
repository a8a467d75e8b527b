// Keys, bounds and numbers of regions.
#include "verbs/transport/regions.h"

#include <fmt/core.h>

#include <atomic>
#include <cstring>

#include "verbs/transport/address.h"
#include "verbs/transport/transport.h"

namespace weft {
namespace {

std::uint64_t checksum_of(RegionKey key) {
  key.checksum = 0;
  return checksum({{reinterpret_cast<const char*>(&key), sizeof key}});
}

Status wrong(Rank peer, std::string_view why) {
  return Status(Code::mismatch, fmt::format("the key of a region of rank {} {}", peer, why), peer);
}

RegionKey key_at(std::string_view keys, std::size_t begin) {
  RegionKey key;
  std::memcpy(&key, keys.data() + begin, sizeof key);
  return key;
}

Status check(const RegionKey& key, Rank peer) {
  if (key.magic != RegionKey::kMagic) return wrong(peer, "is none");
  if (key.version != kWireVersion) {
    return wrong(peer, fmt::format("is of wire version {}, this rank speaks {}",
                                   unsigned{key.version}, unsigned{kWireVersion}));
  }
  const bool ends = key.bytes <= ~std::uint64_t{0} - key.word;
  if (key.checksum != checksum_of(key) || !ends) return wrong(peer, "is damaged");
  return {};
}

}  // namespace

std::string encode(RegionKey key) {
  key.checksum = checksum_of(key);
  return {reinterpret_cast<const char*>(&key), sizeof key};
}

Status check_region_keys(std::string_view keys, Rank peer) {
  if (keys.empty() || keys.size() % sizeof(RegionKey) != 0) {
    return wrong(peer, fmt::format("has {} bytes instead of a multiple of {}: is it cut short?",
                                   keys.size(), sizeof(RegionKey)));
  }
  for (std::size_t at = 0; at < keys.size(); at += sizeof(RegionKey))
    WEFT_RETURN_IF_ERROR(check(key_at(keys, at), peer));
  return {};
}

Result<RegionKey> find_region_key(std::string_view keys, RegionWay way, std::uint64_t owner,
                                  Rank peer) {
  WEFT_RETURN_IF_ERROR(check_region_keys(keys, peer));
  for (std::size_t at = 0; at < keys.size(); at += sizeof(RegionKey)) {
    const RegionKey key = key_at(keys, at);
    if (key.way == way && key.owner == owner) return key;
  }
  return wrong(peer, "is not of the interface that this endpoint leads to");
}

WorkVerdict check_region(const WorkRequest& work, std::uint64_t begin, std::uint64_t bytes) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const RemoteBuffer& remote = work.remote;
  const bool is_swap = work.kind == WorkKind::compare_swap;
  if (is_swap && (remote.bytes < kWord || (begin + remote.word) % kWord != 0))
    return WorkVerdict::misaligned;
  if (work.bytes > remote.bytes) return WorkVerdict::longer;
  if (work.bytes == 0 && !is_swap) return WorkVerdict::done;
  const bool is_inside = remote.word <= bytes && remote.bytes <= bytes - remote.word;
  return is_inside ? WorkVerdict::done : WorkVerdict::outside;
}

std::uint32_t new_region_number() {
  static std::atomic<std::uint32_t> last = 0;
  std::uint32_t number = 0;
  while (number == 0) number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

Result<std::uint32_t> RemoteMemory::import_region(std::string_view key) {
  const std::uint32_t number = new_region_number();
  WEFT_RETURN_IF_ERROR(import_region_as(number, key));
  return number;
}

}  // namespace weft
