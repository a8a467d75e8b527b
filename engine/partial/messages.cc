// messages: see the header.
#include "engine/partial/messages.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

namespace weft {
namespace {

constexpr std::uint8_t kVersion = 1;

enum Flag : std::uint8_t { kAsks = 1, kLeaves = 2, kAnswers = 4, kIsDone = 8 };
constexpr std::uint8_t kFlags = kAsks | kLeaves | kAnswers | kIsDone;

struct Head {
  std::uint8_t version;
  std::uint8_t kind;
  std::uint8_t flags;
  std::uint8_t zero;
  std::uint32_t members;
  std::uint64_t group;
  std::uint64_t requests;
  std::uint64_t computed_us;
};
static_assert(sizeof(Head) == 32 && sizeof(Rank) == 4);
static_assert(std::endian::native == std::endian::little);

Status wrong(Rank from, const std::string& what) {
  return Status(Code::mismatch, fmt::format("rank {} sent a message about groups {}", from, what),
                from);
}

bool has_members(GroupMessage::Kind kind) {
  return kind == GroupMessage::Kind::assignment || kind == GroupMessage::Kind::report;
}

}  // namespace

std::vector<std::byte> encode(const GroupMessage& message) {
  const Head head{
      .version = kVersion,
      .kind = static_cast<std::uint8_t>(message.kind),
      .flags = static_cast<std::uint8_t>(
          (message.asks ? kAsks : 0) | (message.leaves ? kLeaves : 0) |
          (message.answers ? kAnswers : 0) | (message.is_done ? kIsDone : 0)),
      .zero = 0,
      .members = static_cast<std::uint32_t>(message.members.size()),
      .group = message.group,
      .requests = message.requests,
      .computed_us = message.computed_us,
  };
  const std::size_t list = message.members.size() * sizeof(Rank);
  std::vector<std::byte> bytes(sizeof head + list);
  std::memcpy(bytes.data(), &head, sizeof head);
  if (list != 0) std::memcpy(bytes.data() + sizeof head, message.members.data(), list);
  return bytes;
}

Result<GroupMessage> decode_group_message(Rank from, std::span<const std::byte> bytes, int ranks) {
  Head head{};
  if (bytes.empty()) return wrong(from, "without a byte");
  std::memcpy(&head, bytes.data(), std::min(bytes.size(), sizeof head));
  if (head.version != kVersion) {
    return wrong(from, fmt::format("of version {}; this rank has {}", head.version, kVersion));
  }
  if (bytes.size() < sizeof head ||
      bytes.size() != sizeof head + std::size_t{head.members} * sizeof(Rank)) {
    return wrong(from,
                 fmt::format("of {} bytes that names {} members", bytes.size(), head.members));
  }
  const auto kind = static_cast<GroupMessage::Kind>(head.kind);
  if (kind < GroupMessage::Kind::turn || kind > GroupMessage::Kind::over || head.zero != 0 ||
      (head.flags & ~kFlags) != 0 || (head.members != 0 && !has_members(kind))) {
    return wrong(from, "of no known kind");
  }
  GroupMessage message{.kind = kind,
                       .asks = (head.flags & kAsks) != 0,
                       .leaves = (head.flags & kLeaves) != 0,
                       .answers = (head.flags & kAnswers) != 0,
                       .is_done = (head.flags & kIsDone) != 0,
                       .group = head.group,
                       .requests = head.requests,
                       .computed_us = head.computed_us,
                       .members = std::vector<Rank>(head.members)};
  if (head.members != 0)
    std::memcpy(message.members.data(), bytes.data() + sizeof head, bytes.size() - sizeof head);
  for (const Rank rank : message.members) {
    if (rank < 0 || rank >= ranks)
      return wrong(from, fmt::format("with rank {}, which is outside 0…{}", rank, ranks - 1));
  }
  if (std::ranges::adjacent_find(message.members, std::greater_equal<>()) != message.members.end())
    return wrong(from, "whose members do not ascend");
  return message;
}

}  // namespace weft
