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

// The members of one kind, of two bonds. Pairs are taken from them.
class Pairing {
 public:
  Pairing(const BondAddress& low, const BondAddress& high, const std::string& kind)
      : low_(low), high_(high) {
    for (std::size_t l = 0; l < low.networks.size(); ++l)
      if (low.networks[l].kind == kind) ours_.push_back(l);
    for (std::size_t h = 0; h < high.networks.size(); ++h)
      if (high.networks[h].kind == kind) theirs_.push_back(h);
  }

  // Pairs each free member of low with the first free member of high for which `belong` is true.
  template <typename Belong>
  void take(Belong belong) {
    for (const std::size_t l : std::vector(ours_)) {
      const auto other = std::ranges::find_if(
          theirs_, [&](std::size_t h) { return belong(low_.networks[l], high_.networks[h]); });
      if (other == theirs_.end()) continue;
      pairs_.emplace_back(l, *other);
      theirs_.erase(other);
      std::erase(ours_, l);
    }
  }
  [[nodiscard]] bool is_possible() const { return !ours_.empty() && !theirs_.empty(); }
  [[nodiscard]] bool has_found() const { return !pairs_.empty(); }
  // In low's order.
  std::vector<MemberPair> pairs() && {
    std::ranges::sort(pairs_);
    return std::move(pairs_);
  }

 private:
  const BondAddress& low_;
  const BondAddress& high_;
  std::vector<std::size_t> ours_;
  std::vector<std::size_t> theirs_;
  std::vector<MemberPair> pairs_;
};

bool share_rail(const MemberAddress& a, const MemberAddress& b) {
  return a.rail == b.rail;
}

bool share_device(const MemberAddress& a, const MemberAddress& b) {
  return a.device == b.device;
}

}  // namespace

std::string encode(const BondAddress& address) {
  std::string bytes(reinterpret_cast<const char*>(&kMagic), sizeof kMagic);
  put(bytes, address.memory);
  for (const MemberAddress& member : address.networks) {
    put(bytes, member.kind);
    put(bytes, member.rail);
    put(bytes, member.address);
    put(bytes, member.device);
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
    if (!take(bytes, member.kind) || !take(bytes, member.rail) || !take(bytes, member.address) ||
        !take(bytes, member.device))
      return wrong("is cut short");
    if (address.networks.size() == kMostMembers) return wrong("names too many interfaces");
    address.networks.push_back(std::move(member));
  }
  return address;
}

std::vector<MemberPair> pair_members(const BondAddress& low, const BondAddress& high) {
  for (const MemberAddress& first : low.networks) {
    Pairing pairing(low, high, first.kind);
    if (!pairing.is_possible()) continue;
    pairing.take(
        [](const auto& a, const auto& b) { return share_rail(a, b) && share_device(a, b); });
    pairing.take(share_rail);
    if (pairing.has_found()) return std::move(pairing).pairs();
    pairing.take(share_device);
    pairing.take([](const auto&, const auto&) { return true; });
    return std::move(pairing).pairs();
  }
  return {};
}

std::vector<MemberPair> other_pairs(const BondAddress& low, const BondAddress& high) {
  const std::vector<MemberPair> made = pair_members(low, high);
  if (made.empty()) return {};
  const MemberAddress& one = low.networks[made.front().first];
  const bool by_rail = share_rail(one, high.networks[made.front().second]);
  std::vector<MemberPair> others;
  for (std::size_t l = 0; l < low.networks.size(); ++l) {
    for (std::size_t h = 0; h < high.networks.size(); ++h) {
      const MemberAddress& ours = low.networks[l];
      const MemberAddress& theirs = high.networks[h];
      if (ours.kind != one.kind || theirs.kind != one.kind) continue;
      if (by_rail && !share_rail(ours, theirs)) continue;
      if (std::ranges::find(made, MemberPair{l, h}) == made.end()) others.emplace_back(l, h);
    }
  }
  return others;
}

}  // namespace weft::bond
