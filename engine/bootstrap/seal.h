// seal: how what a rank and its server say after the handshake is kept private and unchanged on the
// network: libsodium's secretstream (XChaCha20-Poly1305), one stream for each direction. Frames that are
// repeated, reordered, left out or changed do not open.
//
// The keys come from the job's key and all that was said in the handshake, so they are of one connection.
// Whoever has recorded it and gets the job's key later can read it.
//
// On the wire: a header of 24 bytes at the beginning of a direction; then records, each its length
// (u32, little endian) and the sealed bytes, 17 more than were sealed.
#pragma once

#include <sodium/crypto_secretstream_xchacha20poly1305.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "verbs/base/base.h"

namespace weft::wire {

using SealKey = std::array<unsigned char, crypto_secretstream_xchacha20poly1305_KEYBYTES>;

// The keys of both directions.
struct SealKeys {
  SealKey to_server, to_rank;
};
// `said`: the frames of the handshake, in their order.
[[nodiscard]] SealKeys seal_keys(std::string_view job_key, std::string_view said);

// The sending end of a direction.
class Sealer {
 public:
  explicit Sealer(const SealKey& key);
  // A record; the first one with the header before it.
  [[nodiscard]] std::string seal(std::string_view bytes);

 private:
  crypto_secretstream_xchacha20poly1305_state state_{};
  std::string header_;  // until it has been sent
};

// The receiving end. Holds at most the bytes of one record and of one read.
class Opener {
 public:
  // `most`: the most bytes that are sealed in one record.
  Opener(const SealKey& key, std::size_t most) : key_(key), most_(most) {}
  void append(std::string_view bytes) { buffer_.append(bytes); }
  // The bytes of the next whole record; nothing if more are needed. no_permission: they are not what
  // the other side has sealed. After an error the opener cannot be used further.
  [[nodiscard]] Result<std::optional<std::string>> next();

 private:
  SealKey key_;
  std::size_t most_;
  bool has_begun_ = false;
  crypto_secretstream_xchacha20poly1305_state state_{};
  std::string buffer_;
};

}  // namespace weft::wire
