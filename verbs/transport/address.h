// What the addresses of network interfaces (ib, ucx) have in common: the options that both ends of
// a connection must have alike, and a checksum. Values and pure functions; any thread may call.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

// As an address tells them: sizes are those of slots, after rounding.
struct AgreedOptions {
  std::uint32_t job = 0;
  std::uint32_t context = 0;
  std::uint32_t channels = 0;
  std::uint32_t slots = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t piece_bytes = 0;
};

// Of a transport's address, which has these fields among others.
template <typename Address>
[[nodiscard]] AgreedOptions agreed_options(const Address& address) {
  return {address.job,   address.context,       address.channels,
          address.slots, address.payload_bytes, address.piece_bytes};
}

// `mismatch`, with what differs and which setting it comes from.
[[nodiscard]] Status check_agreed(const AgreedOptions& theirs, const AgreedOptions& ours,
                                  Rank peer);

// That `mismatch`: the peer has `there` for what comes from the setting, we have `here`.
[[nodiscard]] Status differ(Rank peer, std::string_view setting, std::uint64_t there,
                            std::uint64_t here);

// The same of the channels of an interface, which are those of operations and two more: control, and
// operations of some ranks.
inline constexpr std::uint32_t kChannelsBeside = 2;
[[nodiscard]] Status channels_differ(Rank peer, std::uint32_t there, std::uint32_t here);

// FNV-1a over the parts, one after the other: against damage, not against malice.
[[nodiscard]] std::uint64_t checksum(std::initializer_list<std::string_view> parts);

}  // namespace weft
