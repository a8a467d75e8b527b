// Encoding a bond's address, and pairing the members of two.
#include "verbs/bond/address.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace weft::bond {
namespace {

constexpr std::uint32_t kMagic = 0x444E4257;  // "WBND"

void put(std::string& bytes, std::string_view part) {
  const auto size = static_cast<std::uint32_t>(part.size());
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes.append(part);
}

// Takes a part from the front of `bytes`; false if it is cut short.
bool take(std::string_view& bytes, std::string& part) {
  std::uint32_t size = 0;
  if (bytes.size() < sizeof size) return false;
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes.remove_prefix(sizeof size);
  if (size > kAddressBytes || bytes.size() < size) return false;
  part.assign(bytes.substr(0, size));
  bytes.remove_prefix(size);
  return true;
}

// Members on rails of equal name, each once.
std::vector<std::pair<std::size_t, std::size_t>> pair_rails(const BondAddress& low,
                                                            std::span<const std::size_t> ours,
                                                            const BondAddress& high,
                                                            std::span<const std::size_t> theirs) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::vector<bool> taken(high.networks.size());
  for (const std::size_t l : ours) {
    const auto same = std::ranges::find_if(theirs, [&](std::size_t h) {
      return !taken[h] && low.networks[l].rail == high.networks[h].rail;
    });
    if (same == theirs.end()) continue;
    taken[*same] = true;
    pairs.emplace_back(l, *same);
  }
  return pairs;
}

}  // namespace

std::string encode(const BondAddress& address) {
  std::string bytes(reinterpret_cast<const char*>(&kMagic), sizeof kMagic);
  put(bytes, address.memory);
  for (const MemberAddress& member : address.networks) {
    put(bytes, member.kind);
    put(bytes, member.rail);
    put(bytes, member.address);
  }
  return bytes;
}

Result<BondAddress> decode(std::string_view bytes, Rank peer) {
  const auto wrong = [peer](std::string_view what) {
    return Status(Code::mismatch, fmt::format("rank {}'s address {}", peer, what), peer);
  };
  std::uint32_t magic = 0;
  if (bytes.size() < sizeof magic) return wrong("is cut short");
  std::memcpy(&magic, bytes.data(), sizeof magic);
  if (magic != kMagic) return wrong("is not one of Weft's: another version?");
  bytes.remove_prefix(sizeof magic);
  BondAddress address;
  if (!take(bytes, address.memory)) return wrong("is cut short");
  while (!bytes.empty()) {
    MemberAddress member;
    if (!take(bytes, member.kind) || !take(bytes, member.rail) || !take(bytes, member.address))
      return wrong("is cut short");
    if (address.networks.size() == kMostMembers) return wrong("names too many interfaces");
    address.networks.push_back(std::move(member));
  }
  return address;
}

std::vector<std::pair<std::size_t, std::size_t>> pair_members(const BondAddress& low,
                                                              const BondAddress& high) {
  const auto of_kind = [](const BondAddress& address, const std::string& kind) {
    std::vector<std::size_t> members;
    for (std::size_t m = 0; m < address.networks.size(); ++m) {
      if (address.networks[m].kind == kind) members.push_back(m);
    }
    return members;
  };
  for (const MemberAddress& first : low.networks) {
    const std::vector<std::size_t> ours = of_kind(low, first.kind);
    const std::vector<std::size_t> theirs = of_kind(high, first.kind);
    if (theirs.empty()) continue;
    auto pairs = pair_rails(low, ours, high, theirs);
    if (!pairs.empty()) return pairs;
    for (std::size_t k = 0; k < std::min(ours.size(), theirs.size()); ++k)
      pairs.emplace_back(ours[k], theirs[k]);
    return pairs;
  }
  return {};
}

}  // namespace weft::bond
