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
  std::string kind;      // of network
  std::string rail;      // of a network; shared memory has none
  std::string address;   // as the member gave it
  std::string device{};  // its interface; empty: not told
};

struct BondAddress {
  std::string memory;  // empty: shares none
  std::vector<MemberAddress> networks;
};

[[nodiscard]] std::string encode(const BondAddress& address);
// Checks every length; `peer` is for the error's text.
[[nodiscard]] Result<BondAddress> decode(std::string_view bytes, Rank peer);

using MemberPair = std::pair<std::size_t, std::size_t>;  // low's member, high's member

// Which members make paths, in the order in which both ranks number them, all of one kind: the first
// in low's order that high has, too. Each member once: on rails of equal name, and where no name
// agrees all; of these on devices of equal name first, as one name is mostly one place in each
// machine, then in their order. `low` is the rank with the smaller number, so that both sides find
// the same.
[[nodiscard]] std::vector<MemberPair> pair_members(const BondAddress& low, const BondAddress& high);
// Which could make paths as well, as far as names tell: where these do not reach each other.
[[nodiscard]] std::vector<MemberPair> other_pairs(const BondAddress& low, const BondAddress& high);

}  // namespace weft::bond
