// batch: small messages for one peer, one behind the other in the data of one active message. What
// a message costs over a network is a system call and a packet each, whatever its size; so what
// goes to one peer between two turns shares them. Internal to the module.
//
// A batch is an active message without a header. Its parts are notices and credits only, each with
// its length in front and filled up to 8 bytes. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbs/ucx/layout.h"

namespace weft::ucx {

// What every part of a batch begins with.
struct Part {
  std::uint32_t bytes = 0;  // of the message and its payload, which follow
  std::uint32_t unused = 0;
};
static_assert(sizeof(Part) == 8);

// With UCX's own header it is one TCP segment of UCX's (interface.cc): larger ones are cut, and
// each fragment is a system call and a copy more.
inline constexpr std::size_t kBatchBytes = (std::size_t{64} << 10) - 256;

// Bytes that such a message takes in a batch.
[[nodiscard]] constexpr std::size_t part_bytes(std::size_t header_bytes,
                                               std::size_t payload_bytes) {
  return (sizeof(Part) + header_bytes + payload_bytes + 7) / 8 * 8;
}

// Writes a part of part_bytes() to `into`, all but the message's header; where that belongs.
std::byte* write_part(std::byte* into, std::size_t header_bytes,
                      std::span<const std::byte> payload);

// Takes a batch apart that a peer sent: whatever its bytes say, nothing outside of it is read.
class BatchReader {
 public:
  struct Entry {
    std::span<const std::byte> header;  // as long as its kind has it
    std::span<const std::byte> payload;
  };
  explicit BatchReader(std::span<const std::byte> batch) : rest_(batch) {}
  // The next message. Nothing: the batch ended, or it is broken from here on.
  [[nodiscard]] std::optional<Entry> next();
  [[nodiscard]] bool broken() const { return !rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace weft::ucx
