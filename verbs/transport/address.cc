// What the addresses of network interfaces have in common.
#include "verbs/transport/address.h"

#include <fmt/core.h>

namespace weft {

Status differ(Rank peer, std::string_view setting, std::uint64_t there, std::uint64_t here) {
  return Status(Code::mismatch,
                fmt::format("rank {} has {} = {}, this rank {}: set them alike on all ranks", peer,
                            setting, there, here),
                peer);
}

Status channels_differ(Rank peer, std::uint32_t there, std::uint32_t here) {
  return differ(peer, "WEFT_CHANNELS", there - kChannelsBeside, here - kChannelsBeside);
}

Status check_agreed(const AgreedOptions& theirs, const AgreedOptions& ours, Rank peer) {
  if (theirs.job != ours.job)
    return Status(Code::mismatch, fmt::format("rank {} belongs to another job", peer), peer);
  if (theirs.context != ours.context)
    return differ(peer, "context number", theirs.context, ours.context);
  if (theirs.channels != ours.channels)
    return channels_differ(peer, theirs.channels, ours.channels);
  if (theirs.slots != ours.slots) return differ(peer, "WEFT_RAIL_SLOTS", theirs.slots, ours.slots);
  if (theirs.payload_bytes != ours.payload_bytes)
    return differ(peer, "WEFT_EAGER_BYTES", theirs.payload_bytes, ours.payload_bytes);
  if (theirs.piece_bytes != ours.piece_bytes)
    return differ(peer, "bytes per piece", theirs.piece_bytes, ours.piece_bytes);
  return {};
}

std::uint64_t checksum(std::initializer_list<std::string_view> parts) {
  std::uint64_t sum = kFnvBasis;
  for (const std::string_view part : parts) sum = fnv1a64(part, sum);
  return sum;
}

}  // namespace weft
