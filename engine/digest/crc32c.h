// crc32c: the CRC-32C of bytes (Castagnoli's polynomial, as iSCSI and ext4 have it; RFC 3720, appendix
// B.4). It finds every damage of up to 32 bits in a row, and overlooks other damage once in 2^32 cases. It
// is no protection from a peer that means harm.
//
// Pure functions; any thread. The processor's instruction is used where there is one (SSE 4.2 of x86, the
// CRC extension of Arm), in three streams at once, since a result takes three cycles and a new one can
// begin in each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

// `seed` is the checksum of the bytes before these, 0 if there are none: the checksum of a and then b is
// crc32c(b, b_bytes, crc32c(a, a_bytes)).
[[nodiscard]] std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t seed = 0);

// The same without the processor's instruction: what other processors take, and what tests compare with.
[[nodiscard]] std::uint32_t crc32c_portable(const void* data, std::size_t bytes,
                                            std::uint32_t seed = 0);

}  // namespace weft
