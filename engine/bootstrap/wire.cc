// wire: encodes frames and decodes them. Only the two classes at the top deal with byte order and
// bounds. The functions below them follow the table in wire.h.
#include "engine/bootstrap/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::wire {
namespace {

constexpr std::string_view kMagic = "WEFT";

class Writer {
 public:
  explicit Writer(Type type) : out_(kMagic) {
    u8(kVersion).u8(static_cast<std::uint8_t>(type)).u16(0).u32(0);
  }
  Writer& u8(std::uint8_t value) { return little(value, 1); }
  Writer& u16(std::uint16_t value) { return little(value, 2); }
  Writer& u32(std::uint32_t value) { return little(value, 4); }
  Writer& rank(Rank value) { return u32(static_cast<std::uint32_t>(value)); }
  Writer& bytes(std::string_view value) {
    out_.append(value);
    return *this;
  }
  Writer& bytes(const std::array<std::uint8_t, 32>& value) {
    out_.append(value.begin(), value.end());
    return *this;
  }
  std::string finish() {
    const std::size_t body = out_.size() - kHeaderBytes;
    for (std::size_t i = 0; i < 4; ++i) out_[8 + i] = static_cast<char>(body >> (8 * i));
    return std::move(out_);
  }

 private:
  Writer& little(std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) out_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  std::string out_;
};

// Reads the fields of a body. A read past the end returns zeros and is remembered, so that a
// decoder can read all fields and then check complete() once.
class Cursor {
 public:
  explicit Cursor(std::string_view in) : in_(in) {}
  std::uint8_t u8() { return static_cast<std::uint8_t>(little(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(little(2)); }
  std::uint32_t u32() { return little(4); }
  Rank rank() { return static_cast<Rank>(u32()); }
  int incarnation() { return static_cast<int>(u32()); }
  std::array<std::uint8_t, 32> bytes32() {
    std::array<std::uint8_t, 32> value{};
    const std::string_view taken = take(value.size());
    std::ranges::copy(taken, value.begin());
    return value;
  }
  std::string text(std::size_t count) { return std::string(take(count)); }
  std::string rest() { return text(in_.size()); }
  [[nodiscard]] bool complete() const { return good_ && in_.empty(); }

 private:
  std::string_view take(std::size_t count) {
    if (count > in_.size()) {
      good_ = false;
      in_ = {};
      return {};
    }
    const std::string_view taken = in_.substr(0, count);
    in_.remove_prefix(count);
    return taken;
  }
  std::uint32_t little(std::size_t count) {
    std::uint32_t value = 0;
    const std::string_view taken = take(count);
    for (std::size_t i = 0; i < taken.size(); ++i) {
      value |= std::uint32_t{static_cast<std::uint8_t>(taken[i])} << (8 * i);
    }
    return value;
  }
  std::string_view in_;
  bool good_ = true;
};

std::string_view cut(std::string_view text) {
  return text.substr(0, kMaxText);
}

Status malformed(std::string_view what) {
  return Status(Code::invalid_argument, fmt::format("a malformed {} frame", what));
}

bool is_code(std::uint8_t value) {
  return value <= static_cast<std::uint8_t>(kLastCode);
}

}  // namespace

void FrameReader::unseal(const SealKey& key) {
  max_body_ = kMaxBody;
  opener_.emplace(key, kHeaderBytes + kMaxBody);
  opener_->append(std::exchange(buffer_, {}));
}

Result<std::optional<Frame>> FrameReader::next() {
  for (;;) {
    WEFT_ASSIGN(std::optional<Frame> frame, next_plain());
    if (frame || !opener_) return frame;
    WEFT_ASSIGN(const std::optional<std::string> opened, opener_->next());
    if (!opened) return frame;
    buffer_.append(*opened);
  }
}

Result<std::optional<Frame>> FrameReader::next_plain() {
  // Another protocol is refused at its first wrong byte, before a length is read.
  const std::string_view start = std::string_view(buffer_).substr(0, kMagic.size());
  if (start != kMagic.substr(0, start.size())) {
    return Status(Code::mismatch, "the other side does not speak Weft's rendezvous protocol");
  }
  if (buffer_.size() < kHeaderBytes) return std::optional<Frame>{};
  Cursor header(std::string_view(buffer_).substr(kMagic.size(), kHeaderBytes - kMagic.size()));
  const std::uint8_t version = header.u8();
  const auto type = static_cast<Type>(header.u8());
  const std::uint16_t zero = header.u16();
  const std::size_t length = header.u32();
  // A refused frame is read in every version, because it says what is wrong.
  if (version != kVersion && type != Type::refused) {
    return Status(Code::mismatch,
                  fmt::format("the other side speaks version {} of the rendezvous protocol, "
                              "this side version {}",
                              version, kVersion));
  }
  if (zero != 0 || length > max_body_) {
    return Status(
        Code::invalid_argument,
        fmt::format("a frame of {} bytes; at most {} are allowed here", length, max_body_));
  }
  if (buffer_.size() < kHeaderBytes + length) return std::optional<Frame>{};
  Frame frame{type, buffer_.substr(kHeaderBytes, length)};
  buffer_.erase(0, kHeaderBytes + length);
  return std::optional<Frame>{std::move(frame)};
}

std::string encode_challenge(const Nonce& nonce) {
  return Writer(Type::challenge).bytes(nonce).finish();
}

std::string encode_hello(const Hello& hello) {
  return Writer(Type::hello)
      .rank(hello.rank)
      .u32(hello.size)
      .u8(hello.may_return ? 1 : 0)
      .bytes(hello.nonce)
      .bytes(hello.proof)
      .finish();
}

std::string encode_welcome(const Welcome& welcome) {
  return Writer(Type::welcome)
      .rank(welcome.host_rank)
      .u32(static_cast<std::uint32_t>(welcome.incarnation))
      .bytes(welcome.proof)
      .finish();
}

std::string encode_refused(const Status& status) {
  return Writer(Type::refused)
      .u8(static_cast<std::uint8_t>(status.code()))
      .bytes(cut(status.text()))
      .finish();
}

std::string encode_request(const BoardRequest& request) {
  switch (request.kind) {
    case BoardRequest::Kind::put:
      return Writer(Type::put)
          .u32(request.id)
          .u16(static_cast<std::uint16_t>(request.key.size()))
          .bytes(request.key)
          .bytes(request.value)
          .finish();
    case BoardRequest::Kind::take_back:
      return Writer(Type::take_back).u32(request.id).bytes(request.key).finish();
    case BoardRequest::Kind::get:
      return Writer(Type::get).u32(request.id).rank(request.from).bytes(request.key).finish();
    case BoardRequest::Kind::fence:
      return Writer(Type::fence).u32(request.id).finish();
    case BoardRequest::Kind::give_up:
      return Writer(Type::give_up).u32(request.id).finish();
    case BoardRequest::Kind::leave:
      break;
  }
  return Writer(Type::leave).u32(request.id).bytes(cut(request.value)).finish();
}

std::string encode_reply(const Reply& reply) {
  return Writer(Type::reply)
      .u32(reply.id)
      .u8(static_cast<std::uint8_t>(reply.status.code()))
      .rank(reply.status.rank())
      .bytes(reply.status.ok() ? std::string_view(reply.value) : cut(reply.status.text()))
      .finish();
}

std::string encode_event(const StoreEvent& event) {
  return Writer(Type::event)
      .u8(static_cast<std::uint8_t>(event.kind))
      .rank(event.rank)
      .u32(static_cast<std::uint32_t>(event.incarnation))
      .bytes(cut(event.reason))
      .finish();
}

Result<Nonce> decode_challenge(const Frame& frame) {
  Cursor in(frame.body);
  const Nonce nonce = in.bytes32();
  if (frame.type != Type::challenge || !in.complete()) return malformed("challenge");
  return nonce;
}

Result<Hello> decode_hello(const Frame& frame) {
  Cursor in(frame.body);
  Hello hello{};
  hello.rank = in.rank();
  hello.size = in.u32();
  const std::uint8_t may_return = in.u8();
  hello.may_return = may_return == 1;
  hello.nonce = in.bytes32();
  hello.proof = in.bytes32();
  if (frame.type != Type::hello || !in.complete() || may_return > 1) return malformed("hello");
  return hello;
}

Result<Welcome> decode_welcome(const Frame& frame) {
  Cursor in(frame.body);
  Welcome welcome{};
  welcome.host_rank = in.rank();
  welcome.incarnation = in.incarnation();
  welcome.proof = in.bytes32();
  if (frame.type != Type::welcome || !in.complete() || welcome.incarnation < 0)
    return malformed("welcome");
  return welcome;
}

Status decode_refused(const Frame& frame) {
  Cursor in(frame.body);
  const std::uint8_t code = in.u8();
  if (frame.type != Type::refused || !is_code(code) || code == 0) return malformed("refused");
  return Status(static_cast<Code>(code), in.rest());
}

Result<BoardRequest> decode_request(const Frame& frame) {
  Cursor in(frame.body);
  BoardRequest request{};
  request.id = in.u32();
  switch (frame.type) {
    case Type::put:
      request.kind = BoardRequest::Kind::put;
      request.key = in.text(in.u16());
      request.value = in.rest();
      break;
    case Type::take_back:
      request.kind = BoardRequest::Kind::take_back;
      request.key = in.rest();
      break;
    case Type::get:
      request.kind = BoardRequest::Kind::get;
      request.from = in.rank();
      request.key = in.rest();
      break;
    case Type::fence:
      request.kind = BoardRequest::Kind::fence;
      break;
    case Type::give_up:
      request.kind = BoardRequest::Kind::give_up;
      break;
    case Type::leave:
      request.kind = BoardRequest::Kind::leave;
      request.value = in.rest();
      break;
    default:
      return malformed("request");
  }
  if (!in.complete()) return malformed("request");
  return request;
}

Result<Reply> decode_reply(const Frame& frame) {
  Cursor in(frame.body);
  Reply reply{};
  reply.id = in.u32();
  const std::uint8_t code = in.u8();
  const Rank rank = in.rank();
  std::string rest = in.rest();
  if (frame.type != Type::reply || !in.complete() || !is_code(code)) return malformed("reply");
  if (code == 0) {
    reply.value = std::move(rest);
  } else {
    reply.status = Status(static_cast<Code>(code), std::move(rest), rank);
  }
  return reply;
}

Result<StoreEvent> decode_event(const Frame& frame) {
  Cursor in(frame.body);
  const std::uint8_t kind = in.u8();
  const Rank rank = in.rank();
  const int incarnation = in.incarnation();
  std::string reason = in.rest();
  if (frame.type != Type::event || !in.complete() || incarnation < 0 ||
      kind > static_cast<std::uint8_t>(StoreEvent::Kind::returned)) {
    return malformed("event");
  }
  return StoreEvent{static_cast<StoreEvent::Kind>(kind), rank, std::move(reason), incarnation};
}

}  // namespace weft::wire
