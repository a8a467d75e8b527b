// Messages of workers and generators: what is written can be read, and nothing else.
#include <gtest/gtest.h>

#include <vector>

#include "engine/partial/messages.h"

namespace weft {
namespace {

using Kind = GroupMessage::Kind;

std::string why_not(const std::vector<std::byte>& bytes) {
  const Result<GroupMessage> read = decode_group_message(3, bytes, 8);
  EXPECT_EQ(read.status().code(), Code::mismatch);
  EXPECT_EQ(read.status().rank(), 3);
  return std::string(read.status().text());
}

GroupMessage assignment(std::vector<Rank> members) {
  return {.kind = Kind::assignment, .answers = true, .group = 9, .members = std::move(members)};
}

TEST(GroupMessages, AreReadAsTheyWereWritten) {
  const GroupMessage report{.kind = Kind::report,
                            .asks = true,
                            .leaves = true,
                            .answers = true,
                            .is_done = true,
                            .group = 1'000'000'007,
                            .requests = 5,
                            .computed_us = 77,
                            .members = {0, 3, 7}};
  const std::vector<std::byte> bytes = encode(report);
  EXPECT_EQ(bytes.size(), 32 + 3 * 4);
  const Result<GroupMessage> read = decode_group_message(3, bytes, 8);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->kind, report.kind);
  EXPECT_TRUE(read->asks && read->leaves && read->answers && read->is_done);
  EXPECT_EQ(read->group, report.group);
  EXPECT_EQ(read->requests, report.requests);
  EXPECT_EQ(read->computed_us, report.computed_us);
  EXPECT_EQ(read->members, report.members);
}

TEST(GroupMessages, OfAWrongFormNameTheirSender) {
  const std::string sender = "rank 3 sent a message about groups ";
  EXPECT_EQ(why_not({}), sender + "without a byte");
  std::vector<std::byte> bytes = encode(assignment({1, 3}));
  bytes[0] = std::byte{9};
  EXPECT_EQ(why_not(bytes), sender + "of version 9; this rank has 1");
  bytes = encode(assignment({1, 3}));
  bytes.pop_back();
  EXPECT_EQ(why_not(bytes), sender + "of 39 bytes that names 2 members");
  bytes.resize(41);
  EXPECT_EQ(why_not(bytes), sender + "of 41 bytes that names 2 members");
  bytes.resize(1);
  EXPECT_EQ(why_not(bytes), sender + "of 1 bytes that names 0 members");
  for (const std::size_t place : {1, 2, 3}) {
    bytes = encode(assignment({1, 3}));
    bytes[place] = std::byte{0x70};
    EXPECT_EQ(why_not(bytes), sender + "of no known kind");
  }
  EXPECT_EQ(why_not(encode({.kind = Kind::turn, .members = {1}})), sender + "of no known kind");
  EXPECT_EQ(why_not(encode(assignment({1, 8}))), sender + "with rank 8, which is outside 0…7");
  EXPECT_EQ(why_not(encode(assignment({-1, 3}))), sender + "with rank -1, which is outside 0…7");
  EXPECT_EQ(why_not(encode(assignment({3, 3}))), sender + "whose members do not ascend");
}

}  // namespace
}  // namespace weft
