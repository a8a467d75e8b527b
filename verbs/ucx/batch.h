// batch: several small messages to one peer, packed one after another into the data of one active
// message. Over a network every active message costs a system call and a packet, whatever its size;
// so the small messages that are posted to a peer between two turns share one. Internal to the
// module.
//
// A batch is an active message without a header. It consists of parts. A part is one notice, one
// credit, one small piece of one-sided work or the answer to one, preceded by its length and padded
// to a multiple of 8 bytes. Not thread safe.
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

// The size of a batch. Together with UCX's own header it has to fit into one TCP segment of UCX
// (TX_SEG_SIZE in interface.cc), else UCX would cut it, and every fragment costs one more system call
// and copy.
inline constexpr std::size_t kBatchBytes = (std::size_t{64} << 10) - 256;

// One-sided work with more data leaves alone: copying it would cost more than a message.
inline constexpr std::size_t kBatchedWork = 4096;

// Bytes that a message with such a header and payload takes in a batch.
[[nodiscard]] constexpr std::size_t part_bytes(std::size_t header_bytes,
                                               std::size_t payload_bytes) {
  return (sizeof(Part) + header_bytes + payload_bytes + 7) / 8 * 8;
}

// Writes a part of part_bytes() to `into`, but leaves out the message's header. Returns the place
// where the caller writes that header.
std::byte* write_part(std::byte* into, std::size_t header_bytes,
                      std::span<const std::byte> payload);

// Reads the parts of a batch that a peer sent. The batch is not trusted: whatever lengths it
// contains, nothing outside of it is read.
class BatchReader {
 public:
  struct Entry {
    std::span<const std::byte> header;  // header_bytes_of() its kind
    std::span<const std::byte> payload;
  };
  explicit BatchReader(std::span<const std::byte> batch) : rest_(batch) {}
  // The next message; nothing if the batch has ended or is malformed from here on (broken()).
  [[nodiscard]] std::optional<Entry> next();
  [[nodiscard]] bool broken() const { return !rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace weft::ucx
