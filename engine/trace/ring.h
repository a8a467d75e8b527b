// TraceRing: the latest events of a lane, as 16-byte records in a ring of fixed size.
//
// The producer is the owner of the lane, one thread at a time. add() never blocks or allocates, and
// never calls the kernel (the clock is read in user space). If the ring is full, add() overwrites
// the oldest record. A ring without memory is off: add() is then one predictable branch.
//
// Any thread may take a snapshot at any time, also while the producer runs. Every word is atomic,
// and records that were overwritten during the copy are left out. So a snapshot has no half-written
// record and no gap. It holds at most capacity - 1 records, because the producer may be overwriting
// the oldest one.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

// The kinds of events. The numbers are frozen, because tools use them to read the rings of crashed
// processes. A record's argument is the number of the plan's step, unless stated otherwise.
enum class Event : std::uint8_t {
  operation_begin =
      0,              // argument: Trace::operation_name(); peer: the root, or the other rank of two
  operation_end = 1,  // argument: the Code with which it ended
  send_posted = 2,    // peer: the receiver
  combine_begin = 3,  // one combine at a time per operation and lane
  combine_end = 4,
  wait_begin = 5,  // peer: the rank waited for; one wait at a time per operation and lane
  wait_end = 6,
  full = 7,   // peer: the rank to which no slot is free
  sleep = 8,  // the lane's owner is going to sleep
  wake = 9,
  error = 10,  // peer: the rank concerned; argument: Code
  // An operation by name; `operation` is the number of its submission.
  name_submitted = 11,  // argument: Trace::operation_name() of the name
  name_taken = 12,      // the lane begins to agree on it with other ranks
  name_runs = 13,       // argument: how many names run together
  name_ended = 14,      // argument: the Code with which it ended
  // A call of a window; `operation` is its number among those of the context's windows.
  call_begin = 15,  // argument: Trace::operation_name() of the call and the window
  call_end = 16,    // argument: the Code with which it ended
  // After an operation_begin: the bytes of this rank's input, or of its output if it has none. TraceRing::add_bytes().
  operation_bytes =
      17,  // bits 0 to 31 of them: the low half in `peer`, the high half in `argument`
  operation_bytes_high = 18,  // bits 32 to 63; only where one of them is set
  operation_parts =
      19,  // argument: on how many lanes it runs, each with a begin and an end; only if several
};
inline constexpr int kEvents = 20;
[[nodiscard]] std::string_view name(Event event);

// One event. 56 bits of nanoseconds last 2.2 years from the machine's start. `peer` is the low half
// of a Rank; kNoPeer means none.
struct Record {
  static constexpr std::uint16_t kNoPeer = 0xffff;
  static constexpr std::uint32_t kOfSomeRanks = 0x80000000;

  std::uint64_t time_and_event = 0;  // now_ns() * 256 + event
  // Number of the operation in its context. Of one that some ranks call: what its messages are told apart by, or, in
  // events of its begin and end, kOfSomeRanks + its number at this rank if its messages have 0.
  std::uint32_t operation = 0;
  std::uint16_t peer = kNoPeer;
  std::uint16_t argument = 0;

  [[nodiscard]] Event event() const { return static_cast<Event>(time_and_event & 0xff); }
  [[nodiscard]] std::int64_t time_ns() const {
    return static_cast<std::int64_t>(time_and_event >> 8);
  }
  // Of the two events of bytes.
  [[nodiscard]] std::uint64_t bytes() const {
    const std::uint64_t half = std::uint64_t{argument} << 16 | peer;
    return event() == Event::operation_bytes_high ? half << 32 : half;
  }
};
static_assert(sizeof(Record) == 16, "four records fill a cache line");
static_assert(static_cast<std::uint16_t>(kNoRank) == Record::kNoPeer, "no rank becomes no peer");

class alignas(64) TraceRing {
 public:
  // The newest records, oldest first, and how many older ones were overwritten.
  struct Snapshot {
    std::vector<Record> records;
    std::uint64_t lost = 0;
  };

  TraceRing() = default;                     // off
  explicit TraceRing(std::size_t capacity);  // a power of two, at least 2; touches all its memory

  void add(Event event, std::uint32_t operation, Rank peer = kNoRank, std::uint16_t argument = 0) {
    if (slots_ == nullptr) [[likely]]
      return;
    add_at(now_ns(), event, operation, peer, argument);
  }
  // The same for what happened at this time of now_ns().
  void add_at(std::int64_t time_ns, Event event, std::uint32_t operation, Rank peer,
              std::uint16_t argument) {
    if (slots_ == nullptr) return;
    append({static_cast<std::uint64_t>(time_ns) << 8 | static_cast<std::uint8_t>(event), operation,
            static_cast<std::uint16_t>(peer), argument});
  }

  // How many bytes the operation that has just begun is of.
  void add_bytes(std::uint32_t operation, std::uint64_t bytes) {
    const auto add_half = [&](Event event, std::uint64_t half) {
      add(event, operation, static_cast<Rank>(half & 0xffff),
          static_cast<std::uint16_t>(half >> 16));
    };
    add_half(Event::operation_bytes, bytes & 0xffffffff);
    if (bytes >> 32 != 0) add_half(Event::operation_bytes_high, bytes >> 32);
  }

  [[nodiscard]] bool on() const { return slots_ != nullptr; }
  [[nodiscard]] Snapshot snapshot() const;

 private:
  using Words = std::array<std::uint64_t, 2>;
  using Slot = std::array<std::atomic<std::uint64_t>, 2>;
  static_assert(sizeof(Slot) == sizeof(Record), "a slot is a record whose words are atomic");
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "the hot path takes no lock");

  void append(const Record& record);
  [[nodiscard]] Record load(std::uint64_t index) const;
  [[nodiscard]] std::uint64_t oldest_kept(std::uint64_t written) const;

  std::unique_ptr<Slot[]> slots_;
  std::uint64_t mask_ = 0;
  std::atomic<std::uint64_t> written_{0};  // records ever added; changed by the producer only
};

// Each word is stored with release order. A reader that sees a word of record i therefore also sees
// that written_ has reached i. On x86 these are plain moves.
inline void TraceRing::append(const Record& record) {
  const std::uint64_t index = written_.load(std::memory_order_relaxed);
  const auto words = std::bit_cast<Words>(record);
  Slot& slot = slots_[index & mask_];
  slot[0].store(words[0], std::memory_order_release);
  slot[1].store(words[1], std::memory_order_release);
  written_.store(index + 1, std::memory_order_release);
}

}  // namespace weft
