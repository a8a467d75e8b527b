// notices: the first part of an endpoint. It carries messages of the peers' programs, cut into
// notices, and gives credits back.
//
// An endpoint has `channels` independent streams of notices in each direction. A notice is a
// 64-byte header and an optional payload. Each stream is ordered and holds at most `slots` notices
// that the receiver has not released (where memory is shared, `payload_slots` of them with a
// payload).
//
//  - A post answers `posted` or `full`. `full` is normal and ends when the peer releases.
//  - front() shows the oldest notice of a channel that was not released. release() gives its slot
//    back, and the sender sees that in released(). A release also says that what the notice pointed
//    to (a view, a process address) was read: its owner may overwrite it. So every notice that was
//    posted returns exactly one credit: by the peer's release or, after a failure, by close().
//  - Where peers cannot read our memory in place, large payloads travel as pieces: the transport
//    reads them from the caller's memory, and locally_completed() tells when it no longer does.
//  - Channel 0 is the control channel. A notice there makes the peer's Interface::attention()
//    return the endpoint to us, even if the peer has never connected to us.
//
// Threads and lifetime: transport.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "verbs/base/base.h"
#include "verbs/transport/header.h"

namespace weft {

enum class Posted : std::uint8_t { posted, full };

inline constexpr std::uint32_t kControlChannel = 0;
// What a control notice may carry; slots of the control channel hold at least this.
inline constexpr std::size_t kControlBytes = 512;

// An arrived notice, valid until it is released.
struct Notice {
  const WireHeader* header = nullptr;
  const std::byte* payload = nullptr;
};

// Whether the payload is in memory of another device, which no processor may touch: it came from such
// memory of the peer, and its address names it as expect_pieces() has it.
[[nodiscard]] inline bool is_in_device_memory(const Notice& notice) {
  return notice.header->form == PieceForm::payload &&
         (notice.header->flags & kFlagDeviceMemory) != 0;
}

// Whose memory a payload is in until it has arrived. `copied`: the transport's, once post() has
// returned. `lent`: the caller's, until locally_completed() counts the notice.
enum class Payload : std::uint8_t { copied, lent };

// Where pieces lie: in memory of the host, or at addresses of the heap that stand for memory of
// another device and that no processor may touch.
enum class PieceMemory : std::uint8_t { host, device };

class Notices {
 public:
  // `header.stamp` is the transport's, and `header.bytes` is the payload's length where
  // `header.form` says that there is one. A copied payload has at most payload_bytes (kControlBytes
  // on channel 0), a lent one at most Interface::piece_bytes().
  virtual Posted post(std::uint32_t channel, const WireHeader& header,
                      std::span<const std::byte> payload, Payload how) = 0;
  Posted post_notice(std::uint32_t channel, const WireHeader& header,
                     std::span<const std::byte> payload) {
    return post(channel, header, payload, Payload::copied);
  }
  Posted post_piece(std::uint32_t channel, const WireHeader& header,
                    std::span<const std::byte> payload) {
    return post(channel, header, payload, Payload::lent);
  }
  // Lent payloads in this memory will follow. Of the host's this is a hint, so that the cost of
  // lending is paid once for all of it, and the answer is ok. Of a device's, ok says that they may
  // be posted; else the status says why this transport cannot send them.
  virtual Status expect_pieces(std::span<const std::byte> memory, PieceMemory where);
  [[nodiscard]] virtual Notice front(std::uint32_t channel) = 0;
  // Copies the payload of a notice of front(), or its beginning, wherever it is.
  virtual Status copy_payload(std::span<std::byte> to, const Notice& notice);
  virtual void release(std::uint32_t channel) = 0;
  // How many notices of the peer's have come whole on the channel, released ones included.
  [[nodiscard]] virtual std::uint64_t arrived(std::uint32_t channel) = 0;
  // How many notices of ours were posted on the channel, and how many of those the peer has
  // released.
  [[nodiscard]] virtual std::uint64_t posted(std::uint32_t channel) const = 0;
  [[nodiscard]] virtual std::uint64_t released(std::uint32_t channel) = 0;
  // How many of the notices posted on the channel, oldest first, no longer need the memory that
  // they carry or point to. At least released().
  [[nodiscard]] virtual std::uint64_t locally_completed(std::uint32_t channel) = 0;

 protected:
  Notices() = default;
  ~Notices() = default;
};

}  // namespace weft
