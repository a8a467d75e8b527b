// The rendezvous protocol's frames. Both directions speak frames of a 12-byte header and a body;
// all integers are little endian:
//
//   magic "WEFT" | version u8 | type u8 | zero u16 | body length u32 | body
//
//   type       direction  body
//   challenge  s -> c     nonce[32]                                first frame, sent on accept
//   hello      c -> s     rank i32, size u32, may return u8, nonce[32], proof[32]
//   welcome    s -> c     host rank i32, incarnation u32, proof[32]
//   refused    s -> c     code u8, text                            the server closes after it
//   put        c -> s     id u32, key length u16, key, value
//   get        c -> s     id u32, from i32, key
//   fence      c -> s     id u32
//   give_up    c -> s     id u32                                   of the request that is given up
//   leave      c -> s     id u32, reason                           empty if the rank has not failed
//   take_back  c -> s     id u32, key
//   reply      s -> c     id u32, code u8, rank i32, value (code ok) or text
//   event      s -> c     kind u8, rank i32, incarnation u32, reason
//
// What follows the welcome, in both directions, is sealed (seal.h). The header and the refused frame
// have the same form in every version of the protocol. So a rank and a server of different versions
// can say why they do not work together. All input is checked:
// a length before memory is allocated, every field against its range, and no byte may be left over.
// Values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/bootstrap/board.h"
#include "engine/bootstrap/seal.h"
#include "verbs/base/base.h"

namespace weft::wire {

inline constexpr std::uint8_t kVersion = 2;
inline constexpr std::size_t kHeaderBytes = 12;
// The largest body: a put of the largest key and value. Before a connection has joined, bodies are
// limited to kMaxStrangerBody.
inline constexpr std::size_t kMaxBody = 4 + 2 + kMaxStoreKey + kMaxStoreValue;
inline constexpr std::size_t kMaxStrangerBody = 512;
inline constexpr std::size_t kMaxText = 1024;  // longer refusals and reasons are cut

enum class Type : std::uint8_t {
  challenge = 1,
  hello,
  welcome,
  refused,
  put,
  get,
  fence,
  give_up,
  leave,
  reply,
  event,
  take_back,
};

using Nonce = std::array<std::uint8_t, 32>;  // fresh random bytes of one side
using Proof = std::array<std::uint8_t, 32>;  // HMAC-SHA256

struct Frame {
  Type type;
  std::string body;
};
struct Hello {
  Rank rank;
  std::uint32_t size;
  bool may_return;  // in the place of a rank that is gone
  Nonce nonce;
  Proof proof;
};
struct Welcome {
  Rank host_rank;
  int incarnation;  // how often the rank's number had been given before
  Proof proof;
};

// Cuts a byte stream into frames. Holds at most the bytes of one frame, of one record and of one read.
class FrameReader {
 public:
  explicit FrameReader(std::size_t max_body) : max_body_(max_body) {}
  // The other side has joined, or is the server: from here on frames are large and sealed.
  void unseal(const SealKey& key);
  void append(std::string_view bytes) {
    if (opener_)
      opener_->append(bytes);
    else
      buffer_.append(bytes);
  }
  // The next whole frame; nothing if more bytes are needed. mismatch: another protocol or version.
  // invalid_argument: a frame that is too long. no_permission: it was not sealed by the other side.
  // After an error the reader cannot be used further.
  [[nodiscard]] Result<std::optional<Frame>> next();

 private:
  [[nodiscard]] Result<std::optional<Frame>> next_plain();

  std::size_t max_body_;
  std::optional<Opener> opener_;
  std::string buffer_;
};

[[nodiscard]] std::string encode_challenge(const Nonce& nonce);
[[nodiscard]] std::string encode_hello(const Hello& hello);
[[nodiscard]] std::string encode_welcome(const Welcome& welcome);
[[nodiscard]] std::string encode_refused(const Status& status);
[[nodiscard]] std::string encode_request(const BoardRequest& request);
[[nodiscard]] std::string encode_reply(const Reply& reply);
[[nodiscard]] std::string encode_event(const StoreEvent& event);

// Each expects a frame of its type and returns invalid_argument for anything malformed.
[[nodiscard]] Result<Nonce> decode_challenge(const Frame& frame);
[[nodiscard]] Result<Hello> decode_hello(const Frame& frame);
[[nodiscard]] Result<Welcome> decode_welcome(const Frame& frame);
// The refusal as an error, or an error that says why the frame is no refusal.
[[nodiscard]] Status decode_refused(const Frame& frame);
[[nodiscard]] Result<BoardRequest> decode_request(const Frame& frame);
[[nodiscard]] Result<Reply> decode_reply(const Frame& frame);
[[nodiscard]] Result<StoreEvent> decode_event(const Frame& frame);

}  // namespace weft::wire
