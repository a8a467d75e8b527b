// request: what a call of isend or irecv has begun; and what the two ends write to each other.
//
//   receiver                                        sender
//   regMr: region r of this key      ── notice ──►  imports it
//   irecv: room number n: for each of up to 8 tags, so many bytes at this offset of region r
//                                    ── notice ──►  isend of one of these tags takes its place
//   data                             ◄── writes ──
//   board[n mod 64][k] := n, bytes   ◄── write ───  behind the data
//
// A word of the board holds the low 20 bits of n above 44 bits of size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbs/base/base.h"

namespace weft::nccl {

class Link;

class Request {
 public:
  virtual ~Request() = default;
  [[nodiscard]] virtual Link& link() = 0;
  // Whether it has ended; the sizes of its messages then.
  virtual Result<bool> test(int* sizes) = 0;
};

inline constexpr std::size_t kMostTags = 8;    // of one room
inline constexpr std::size_t kMostRooms = 64;  // at most half of them are in use at once
inline constexpr unsigned kSizeBits = 44;
inline constexpr std::size_t kMostBytes = std::size_t{1} << 40;  // of a message

[[nodiscard]] constexpr std::uint64_t board_word(std::uint64_t room, std::size_t bytes) {
  return room << kSizeBits | bytes;
}
[[nodiscard]] constexpr std::size_t board_place(std::uint64_t room, std::size_t index) {
  return sizeof(std::uint64_t) * (room % kMostRooms * kMostTags + index);
}
inline constexpr std::size_t kBoardBytes = sizeof(std::uint64_t) * kMostRooms * kMostTags;

// The notices' payloads.
enum class Word : std::uint32_t { room = 1, region = 2, drop = 3 };
struct RoomPart {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t region = 0;
  std::int32_t tag = 0;
};
struct RoomWord {
  Word word = Word::room;
  std::uint32_t count = 0;
  std::uint64_t number = 0;
  RoomPart parts[kMostTags];
};
// Followed by the key, if it is `region`.
struct RegionWord {
  Word word = Word::region;
  std::uint32_t region = 0;  // as RoomPart names it
};
static_assert(sizeof(RoomWord) == 16 + 24 * kMostTags && sizeof(RegionWord) == 8);

}  // namespace weft::nccl
