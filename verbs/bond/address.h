// A bond's address: its members' addresses with their rails, and which members of two bonds make a
// path. Values only. Internal to the module.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verbs/transport/transport.h"

namespace weft::bond {

// Members of a bond, and so paths between two ranks.
inline constexpr std::size_t kMostMembers = 16;

struct MemberAddress {
  std::string kind;      // BondMember::kind
  std::string rail;      // of a network; shared memory has none
  std::string address;   // as the member gave it
  std::string device{};  // BondMember::device; empty: not known
};

struct BondAddress {
  std::string memory;  // of its shared memory; empty: it has none
  std::vector<MemberAddress> networks;
};

[[nodiscard]] std::string encode(const BondAddress& address);
// Checks every length; `peer` is for the error's text.
[[nodiscard]] Result<BondAddress> decode(std::string_view bytes, Rank peer);

using MemberPair = std::pair<std::size_t, std::size_t>;  // a member of `low`, one of `high`

// Pairs the members of two bonds into paths. `low` is the bond of the rank with the smaller number,
// so that both ranks find the same pairs. The result has them in the order in which both ranks
// number the paths.
//  - All members that are paired are of one kind: the first in low's order that high has, too.
//  - If some of them are on rails of equal name, only members on rails of equal name are paired. If
//    no name agrees, any may be paired.
//  - Of these, members whose devices have equal names are paired first, because one name is mostly
//    one place in each machine. The others are paired in their order.
//  - Each member is in one pair at most.
[[nodiscard]] std::vector<MemberPair> pair_members(const BondAddress& low, const BondAddress& high);
// The other pairs that may make paths, as far as names tell. They are tried if members that
// pair_members() put together do not reach each other (ports.cc).
[[nodiscard]] std::vector<MemberPair> other_pairs(const BondAddress& low, const BondAddress& high);

}  // namespace weft::bond
