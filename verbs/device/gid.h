// gid: the addresses (GIDs) of RDMA ports, and which local one can talk to which remote one. A port
// has several: each IP address of its network interface once per RoCE version, and those that the
// card made itself. A queue pair is bound to one of each side, and both sides must choose the same
// pair; so the order of pairs depends on the two addresses alone and not on who looks.
// Values and pure functions; any thread may call.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

using GidBytes = std::array<std::uint8_t, 16>;  // in the order in which they are sent

enum class GidKind : std::uint8_t {
  infiniband,
  roce_v1,  // Ethernet frames of their own type: no router forwards them
  roce_v2,  // UDP packets
};

// "InfiniBand", "RoCE v1", "RoCE v2".
[[nodiscard]] std::string_view name(GidKind kind);

struct RdmaGid {
  int index = 0;  // in the port's table; with holes, and not stable when addresses come and go
  GidBytes bytes{};
  std::string text;  // "0000:0000:0000:0000:0000:ffff:0a00:0001"
  GidKind kind = GidKind::infiniband;
  std::string netdev;    // the network interface it comes from; empty: none, or not told
  std::string ip;        // "10.0.0.1", or as IPv6
  int prefix_bits = -1;  // of that address on that interface; -1: not known
  bool link_local = false;
  bool usable = false;
  bool lacks_carrier = false;  // not usable, and only because a cable is out
  std::string reason;          // why, or why not

  [[nodiscard]] bool operator==(const RdmaGid&) const = default;
};

// "10.0.0.0/24", the network of its address; empty if that is not known.
[[nodiscard]] std::string subnet_of(const RdmaGid& gid);

// "10.0.0.1", or as IPv6.
[[nodiscard]] std::string ip_of(const GidBytes& bytes);

// What a peer has to tell of a GID. Whatever it says is safe to rank: a kind that there is not
// matches nothing, a prefix that cannot be is not known.
struct GidAddress {
  GidBytes bytes{};
  GidKind kind = GidKind::infiniband;
  int prefix_bits = -1;  // of 32 for an IPv4 address, else of 128; -1: not known
};

[[nodiscard]] GidAddress address_of(const RdmaGid& gid);

// "10.0.0.1", "fe80::1" or a GID as sysfs writes it, each with "/prefix" or without.
// `invalid_argument`: it is none of these.
[[nodiscard]] Result<GidAddress> parse_gid(const std::string& text, GidKind kind);

// How well packets get from one to the other; below 0: not at all. RoCE v2 before v1, then
// addresses that routers forward before link-local ones, then one subnet (by the shorter of both
// prefixes) before an unknown one before different ones, then the leading bits in common, in which
// IPv4 comes before IPv6. Kinds and address families do not mix. gid_score(a, b) is
// gid_score(b, a), and it looks at nothing but what a GidAddress has.
[[nodiscard]] int gid_score(const RdmaGid& local, const GidAddress& remote);

// "both RoCE v2, one subnet 10.0.0.0/24"; or why packets do not get there.
[[nodiscard]] std::string relation_of(const RdmaGid& local, const GidAddress& remote);

struct GidPair {
  int local = 0;  // positions in what was ranked, not indexes of the port's table
  int remote = 0;
  int score = -1;
  std::string reason;  // "both RoCE v2, one subnet 10.0.0.0/24"
};

// Every pair, best first; those that cannot be, and those with a local GID that is not usable, come
// last with a score of -1. Two ranks that tell each other their usable GIDs only find the same
// first pair. Costs a text per pair: setup, not data path.
[[nodiscard]] std::vector<GidPair> rank_gid_pairs(std::span<const RdmaGid> local,
                                                  std::span<const GidAddress> remote);

}  // namespace weft
