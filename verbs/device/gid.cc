// What two addresses have to do with each other, then a number and a sentence made of that.
#include "verbs/device/gid.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "verbs/device/gid_bytes.h"

namespace weft {
namespace {

enum class Subnet : std::uint8_t { different, unknown, one };

struct Relation {
  std::string_view obstacle;  // why no packet passes; empty: it may
  bool link_local = false;    // at least one of both
  Subnet subnet = Subnet::unknown;
  int prefix_bits = -1;  // by which the subnet was judged
  int common_bits = 0;   // of the 128
};

// An unset or impossible prefix is -1. On InfiniBand the subnet is the first half, always.
int prefix_of(const GidAddress& gid) {
  if (gid.kind == GidKind::infiniband) return 64;
  const int width = device::is_ipv4(gid.bytes) ? 32 : 128;
  return gid.prefix_bits >= 0 && gid.prefix_bits <= width ? gid.prefix_bits : -1;
}

int common_bits(const GidBytes& a, const GidBytes& b) {
  int bits = 0;
  for (std::size_t at = 0; at < a.size(); ++at) {
    const auto differing = static_cast<std::uint8_t>(a[at] ^ b[at]);
    bits += std::countl_zero(differing);
    if (differing != 0) break;
  }
  return bits;
}

std::string_view obstacle(const GidAddress& a, const GidAddress& b) {
  if (a.kind != b.kind) return "different kinds";
  if (a.bytes == GidBytes{} || b.bytes == GidBytes{}) return "an address is not set";
  if (device::is_ipv4(a.bytes) != device::is_ipv4(b.bytes)) return "one is IPv4, the other is not";
  return {};
}

// A prefix of the whole address (a tunnel's, a routed host's) says nothing about neighbors.
Subnet subnet_of(const Relation& both, bool is_ipv4) {
  if (both.common_bits == 128) return Subnet::one;
  if (both.prefix_bits < 0 || both.prefix_bits == (is_ipv4 ? 32 : 128)) return Subnet::unknown;
  const int needed = both.prefix_bits + (is_ipv4 ? 96 : 0);
  return both.common_bits >= needed ? Subnet::one : Subnet::different;
}

Relation relate(const GidAddress& a, const GidAddress& b) {
  Relation both;
  both.obstacle = obstacle(a, b);
  both.link_local = device::is_link_local(a.bytes) || device::is_link_local(b.bytes);
  both.common_bits = common_bits(a.bytes, b.bytes);
  const auto [shorter, longer] = std::minmax({prefix_of(a), prefix_of(b)});
  both.prefix_bits = shorter < 0 ? longer : shorter;
  both.subnet = subnet_of(both, device::is_ipv4(a.bytes));
  return both;
}

// A number whose digits are the criteria, the first one weighing most.
int score_of(const Relation& both, GidKind kind) {
  if (!both.obstacle.empty()) return -1;
  int score = kind == GidKind::roce_v1 ? 0 : 1;
  score = score * 2 + (both.link_local ? 0 : 1);
  score = score * 3 + static_cast<int>(both.subnet);
  return score * 129 + both.common_bits;
}

std::string subnet_reason(const Relation& both, const GidAddress& local, const GidAddress& remote) {
  if (local.bytes == remote.bytes) return "one address";
  if (both.subnet == Subnet::one)
    return "one subnet " + device::subnet_text(local.bytes, both.prefix_bits);
  if (both.subnet == Subnet::different)
    return "different subnets " + device::subnet_text(local.bytes, both.prefix_bits) + " and " +
           device::subnet_text(remote.bytes, both.prefix_bits) + ": needs a route";
  const int mapped = device::is_ipv4(local.bytes) ? 96 : 0;
  return "subnet not known, " + std::to_string(both.common_bits - mapped) +
         " leading bits in common";
}

std::string reason_of(const Relation& both, const GidAddress& local, const GidAddress& remote) {
  if (local.kind != remote.kind) {
    return std::string(name(local.kind)) + " here, " + std::string(name(remote.kind)) + " there";
  }
  if (!both.obstacle.empty()) return std::string(both.obstacle);
  std::string text = "both " + std::string(name(local.kind)) + ", ";
  // Every segment has the same link-local subnet, so that it is one says nothing.
  if (both.link_local && local.kind != GidKind::infiniband) {
    return text + "link-local: only within one Ethernet segment";
  }
  return text + subnet_reason(both, local, remote);
}

// The order of pairs, seen alike from both ends but for positions, which decide only between
// entries that hold the same address. Of two addresses that both sides have, each with itself
// scores more than one with the other, so that "whose is which" never decides the first place.
auto place(const GidPair& pair, std::span<const RdmaGid> local,
           std::span<const GidAddress> remote) {
  const RdmaGid& own = local[static_cast<std::size_t>(pair.local)];
  const GidBytes& other = remote[static_cast<std::size_t>(pair.remote)].bytes;
  return std::tuple(-pair.score, own.kind, std::min(own.bytes, other), std::max(own.bytes, other),
                    pair.local, pair.remote);
}

}  // namespace

std::string_view name(GidKind kind) {
  switch (kind) {
    case GidKind::infiniband:
      return "InfiniBand";
    case GidKind::roce_v1:
      return "RoCE v1";
    case GidKind::roce_v2:
      return "RoCE v2";
  }
  return "unknown kind";
}

std::string subnet_of(const RdmaGid& gid) {
  if (gid.prefix_bits < 0) return {};
  return device::subnet_text(gid.bytes, gid.prefix_bits);
}

std::string ip_of(const GidBytes& bytes) {
  return device::ip_text(bytes);
}

GidAddress address_of(const RdmaGid& gid) {
  return {.bytes = gid.bytes, .kind = gid.kind, .prefix_bits = gid.prefix_bits};
}

int gid_score(const RdmaGid& local, const GidAddress& remote) {
  return score_of(relate(address_of(local), remote), local.kind);
}

std::string relation_of(const RdmaGid& local, const GidAddress& remote) {
  if (!local.usable) return local.reason;
  return reason_of(relate(address_of(local), remote), address_of(local), remote);
}

std::vector<GidPair> rank_gid_pairs(std::span<const RdmaGid> local,
                                    std::span<const GidAddress> remote) {
  std::vector<GidPair> pairs;
  for (std::size_t own = 0; own < local.size(); ++own) {
    for (std::size_t other = 0; other < remote.size(); ++other) {
      const GidAddress here = address_of(local[own]);
      const Relation both = relate(here, remote[other]);
      GidPair& pair = pairs.emplace_back();
      pair.local = static_cast<int>(own);
      pair.remote = static_cast<int>(other);
      pair.score = local[own].usable ? score_of(both, here.kind) : -1;
      pair.reason = relation_of(local[own], remote[other]);
    }
  }
  std::ranges::sort(pairs, {}, [&](const GidPair& pair) { return place(pair, local, remote); });
  return pairs;
}

}  // namespace weft
