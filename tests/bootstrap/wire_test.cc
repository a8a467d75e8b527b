// Frames: the bytes are frozen, what is encoded is decoded, and nothing malformed passes.
#include "engine/bootstrap/wire.h"

#include <gtest/gtest.h>

#include <random>

namespace weft::wire {
namespace {

Result<std::optional<Frame>> first_frame(std::string_view bytes, std::size_t max_body = kMaxBody) {
  FrameReader reader(max_body);
  reader.append(bytes);
  return reader.next();
}

Frame frame_of(std::string_view bytes) {
  return first_frame(bytes).value().value();
}

TEST(Wire, TheBytesOfVersionTwoAreFrozen) {
  const BoardRequest put{BoardRequest::Kind::put, 0x01020304, kNoRank, "k", "vw"};
  const std::string expected(
      "WEFT\x02\x05\0\0\x09\0\0\0"
      "\x04\x03\x02\x01"
      "\x01\0"
      "kvw",
      21);
  EXPECT_EQ(encode_request(put), expected);
  const std::string fence(
      "WEFT\x02\x07\0\0\x04\0\0\0"
      "\x07\0\0\0",
      16);
  EXPECT_EQ(encode_request({BoardRequest::Kind::fence, 7, kNoRank, {}, {}}), fence);
}

TEST(Wire, RequestsComeBackAsTheyWent) {
  for (const auto kind :
       {BoardRequest::Kind::put, BoardRequest::Kind::take_back, BoardRequest::Kind::get,
        BoardRequest::Kind::fence, BoardRequest::Kind::give_up, BoardRequest::Kind::leave}) {
    BoardRequest request{kind, 77, kNoRank, {}, {}};
    if (kind == BoardRequest::Kind::put)
      request.key = "key", request.value = std::string("a\0b", 3);
    if (kind == BoardRequest::Kind::take_back) request.key = "key";
    if (kind == BoardRequest::Kind::get) request.key = "key", request.from = 5;
    const BoardRequest back = decode_request(frame_of(encode_request(request))).value();
    EXPECT_EQ(back.kind, request.kind);
    EXPECT_EQ(back.id, request.id);
    EXPECT_EQ(back.from, request.from);
    EXPECT_EQ(back.key, request.key);
    EXPECT_EQ(back.value, request.value);
  }
}

TEST(Wire, RepliesAndEventsComeBackAsTheyWent) {
  const Reply value = decode_reply(frame_of(encode_reply({3, {}, "bytes"}))).value();
  EXPECT_TRUE(value.status.ok());
  EXPECT_EQ(value.value, "bytes");
  const Reply error =
      decode_reply(frame_of(encode_reply({4, Status(Code::peer_died, "gone", 9), {}}))).value();
  EXPECT_EQ(error.status.code(), Code::peer_died);
  EXPECT_EQ(error.status.text(), "gone");
  EXPECT_EQ(error.status.rank(), 9);
  const StoreEvent event =
      decode_event(frame_of(encode_event({StoreEvent::Kind::left, 2, "why"}))).value();
  EXPECT_EQ(event.kind, StoreEvent::Kind::left);
  EXPECT_EQ(event.rank, 2);
  EXPECT_EQ(event.reason, "why");
  const StoreEvent back =
      decode_event(frame_of(encode_event({StoreEvent::Kind::returned, 1, {}, 5}))).value();
  EXPECT_EQ(back.kind, StoreEvent::Kind::returned);
  EXPECT_EQ(back.incarnation, 5);
  const Hello hello = decode_hello(frame_of(encode_hello({1, 2, true, {}, {}}))).value();
  EXPECT_TRUE(hello.may_return);
  EXPECT_EQ(decode_welcome(frame_of(encode_welcome({kNoRank, 3, {}}))).value().incarnation, 3);
}

TEST(Wire, FramesAreCutFromAStreamThatComesByteByByte) {
  const std::string one = encode_request({BoardRequest::Kind::put, 1, kNoRank, "key", "value"});
  const std::string stream = one + encode_request({BoardRequest::Kind::fence, 2, kNoRank, {}, {}});
  FrameReader reader(kMaxBody);
  std::vector<Frame> frames;
  for (const char byte : stream) {
    reader.append({&byte, 1});
    if (auto frame = reader.next().value()) frames.push_back(*std::move(frame));
  }
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].type, Type::put);
  EXPECT_EQ(frames[1].type, Type::fence);
}

TEST(Wire, EveryTruncationAndEveryExtraByteIsRefused) {
  const Frame whole = frame_of(encode_hello({1, 2, false, {}, {}}));
  for (std::size_t length = 0; length < whole.body.size(); ++length) {
    EXPECT_FALSE(decode_hello({whole.type, whole.body.substr(0, length)}).ok()) << length;
  }
  EXPECT_TRUE(decode_hello(whole).ok());
  EXPECT_FALSE(decode_hello({whole.type, whole.body + "x"}).ok());
  EXPECT_FALSE(decode_hello({Type::put, whole.body}).ok());
  EXPECT_FALSE(decode_request({Type::fence, "12345"}).ok());
  EXPECT_FALSE(decode_request({Type::welcome, "1234"}).ok());
  EXPECT_FALSE(decode_request({Type::put, std::string("\1\0\0\0\xff\xff"
                                                      "k",
                                                      7)})
                   .ok());
  EXPECT_FALSE(decode_reply({Type::reply, std::string("\1\0\0\0\x63\0\0\0\0", 9)}).ok());
  EXPECT_FALSE(decode_event({Type::event, std::string("\x09\0\0\0\0", 5)}).ok());
}

TEST(Wire, HeadersAreCheckedBeforeAnythingIsBelieved) {
  std::string frame = encode_request({BoardRequest::Kind::fence, 1, kNoRank, {}, {}});
  EXPECT_EQ(first_frame("GET / HTTP/1.1").status().code(), Code::mismatch);
  EXPECT_EQ(first_frame("X").status().code(), Code::mismatch);
  EXPECT_FALSE(first_frame(frame, 3).ok());
  std::string version = frame;
  version[4] = 9;
  EXPECT_EQ(first_frame(version).status().code(), Code::mismatch);
  EXPECT_NE(first_frame(version).status().text().find("version 9"), std::string_view::npos);
  std::string reserved = frame;
  reserved[6] = 1;
  EXPECT_FALSE(first_frame(reserved).ok());
  std::string length = frame;
  length[11] = '\x7f';  // 2 GiB announced, and no byte of it believed
  EXPECT_EQ(first_frame(length).status().code(), Code::invalid_argument);
}

TEST(Wire, ARefusalOfAnotherVersionIsUnderstood) {
  std::string bytes = encode_refused(Status(Code::mismatch, "too old"));
  bytes[4] = 9;
  const Status refusal = decode_refused(frame_of(bytes));
  EXPECT_EQ(refusal.code(), Code::mismatch);
  EXPECT_EQ(refusal.text(), "too old");
}

TEST(Wire, RandomBodiesNeverBreakADecoder) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    Frame frame{static_cast<Type>(random() % 14), std::string(random() % 90, '\0')};
    for (char& c : frame.body) c = static_cast<char>(random());
    (void)decode_challenge(frame);
    (void)decode_hello(frame);
    (void)decode_welcome(frame);
    (void)decode_refused(frame);
    (void)decode_request(frame);
    (void)decode_reply(frame);
    (void)decode_event(frame);
  }
}

}  // namespace
}  // namespace weft::wire
