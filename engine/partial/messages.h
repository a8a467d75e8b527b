// messages: what workers and the generator of their groups say to each other.
//
//   turn        worker -> generator   done with a group; asks for the next one; leaves
//   report      worker -> generator   what a worker tells a new generator (GroupReport)
//   assignment  generator -> worker   the group runs
//   going_on    generator -> worker   which has left: other workers still train
//   over        generator -> worker   all workers have left
//
// A message is a head of 32 bytes and 4 bytes for each member, little endian. Values and pure functions.
// Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct GroupMessage {
  enum class Kind : std::uint8_t { turn = 1, report, assignment, going_on, over };
  Kind kind = Kind::turn;
  bool asks = false;        // turn: for the next group; report: it has asked, and is not done
  bool leaves = false;      // turn, report
  bool answers = false;     // assignment, report: the group is the answer to the worker's request
  bool is_done = false;     // report: with the group
  std::uint64_t group = 0;  // turn: it is done with this one; 0: with none
  std::uint64_t requests = 0;     // report
  std::uint64_t computed_us = 0;  // turn, report
  std::vector<Rank> members{};    // assignment, report: ascending
};

[[nodiscard]] std::vector<std::byte> encode(const GroupMessage& message);
// mismatch names the sender: the message has another version, or not the form above, or members that are
// no ranks of the job.
[[nodiscard]] Result<GroupMessage> decode_group_message(Rank from, std::span<const std::byte> bytes,
                                                        int ranks);

}  // namespace weft
