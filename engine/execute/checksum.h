// checksum: that of a piece, which covers its weight too. Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/digest/digest.h"
#include "verbs/transport/transport.h"

namespace weft {

[[nodiscard]] inline std::uint32_t checksum_of_weight(double weight) {
  return crc32c(&weight, sizeof weight);
}

// Never kNoChecksum.
[[nodiscard]] inline std::uint32_t some_checksum(std::uint32_t crc) {
  return crc == kNoChecksum ? 1 : crc;
}

[[nodiscard]] inline std::uint32_t piece_checksum(const std::byte* data, std::uint64_t bytes,
                                                  double weight) {
  return some_checksum(crc32c(data, bytes, checksum_of_weight(weight)));
}

}  // namespace weft
