// One-sided work: a write, a read or a compare-and-swap on a peer's memory, as all transports see
// it: what it names, why it is refused, how its completions wait for poll(), and what a failure
// does to the work that was posted behind it. Transports build on this; programs use transport.h.
//
// Threads: everything here belongs to the lane of its interface, but for the pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "verbs/base/base.h"
#include "verbs/transport/header.h"

namespace weft {

// Memory of a peer. As the peer names it on the wire ({form, word} of WireHeader), or a part of a
// region that was imported from the peer.
struct RemoteBuffer {
  PieceForm form = PieceForm::view;  // view, process or region
  std::uint64_t word = 0;            // of a region: the offset in it
  std::size_t bytes = 0;
  std::uint32_t region = 0;  // of a region: its number, from import_region()
};

enum class WorkKind : std::uint8_t { write, read, compare_swap };

// A piece of one-sided work: `bytes` of `remote`, from its start, come from `local` or go there. A
// compare-and-swap has its last three fields instead: *remote becomes `desired` if it is `expected`,
// and `*found` gets what was there.
struct WorkRequest {
  WorkKind kind = WorkKind::write;
  RemoteBuffer remote;
  std::size_t bytes = 0;
  std::byte* local = nullptr;
  std::uint64_t ticket = 0;  // of its completion
  std::uint64_t expected = 0;
  std::uint64_t desired = 0;
  std::uint64_t* found = nullptr;
};

// What became of the work. The values travel on the wire (verbs/ucx).
enum class WorkVerdict : std::uint8_t {
  done = 0,
  outside = 1,         // not inside the shared heap, or not inside its region
  longer = 2,          // more bytes than the buffer that was named
  no_region = 3,       // neither a view nor a process address nor a region
  private_memory = 4,  // a process address, on a path that reaches registered memory alone
  misaligned = 5,      // a compare-and-swap of something else than 8 aligned bytes
  lost = 6,            // the data did not arrive
  behind = 7,          // not done: work that was posted before it failed
  withdrawn = 8,       // its owner has withdrawn the region, or has never exposed it
  unknown = 9,         // no region of this number was imported here
};

// A heap whose size is not known yet: only sums that overflow are outside.
inline constexpr std::uint64_t kUnknownHeap = ~std::uint64_t{0};

// Whether the work stays inside the bounds of the peer's shared heap. No sum here can overflow,
// whatever the request says. A request of no bytes touches nothing, wherever it points.
[[nodiscard]] WorkVerdict check_bounds(const WorkRequest& work, std::uint64_t heap_bytes);

// The Status of work that was not done: "writing 16 bytes at 0x40 of rank 3: outside its shared
// heap". `over` is the transport for people ("RDMA").
[[nodiscard]] Status refusal_of(const WorkRequest& work, Rank peer, WorkVerdict verdict,
                                std::string_view over);
[[nodiscard]] Status refusal_of(const WorkRequest& work, Rank peer, Code code,
                                std::string_view why);

// Copies between memory of ours and memory that a peer reads or writes at the same time, in this
// process or another. Eight aligned bytes move as one word: `publish_bytes` stores it after everything
// that was copied before (release), `fetch_bytes` loads it before everything that is copied later
// (acquire). So a reader that finds a published word finds what was published before it. And what
// is published after a word does not become visible before it.
//
// The bytes of one longer copy move in no order, while others may write them. A reader that has to
// know that its copy is whole looks, after the copy, at a word that the writer publishes before and
// after the bytes. Under ThreadSanitizer these copies are made of relaxed atomic accesses, so that
// such a race by design is not reported.
void publish_bytes(std::byte* shared, const std::byte* from, std::size_t bytes);
void fetch_bytes(std::byte* to, const std::byte* shared, std::size_t bytes);
// Copies memory of ours that peers may write at the same time, in no order, and before everything
// that is copied later.
void copy_shared(std::byte* to, const std::byte* shared, std::size_t bytes);

// The one-sided work of an endpoint: how many pieces were posted, how many of these have ended, and
// what is left of it.
struct WorkState {
  std::uint64_t posted = 0;
  std::uint64_t ended = 0;
  bool is_untold = false;  // poll() has not returned all completions
  // Bytes of work that completed with a failure may still arrive at the peer: its path failed with
  // the work under way, and nobody has said that the peer's end is closed, too. A transport that
  // cannot know it says yes.
  bool may_linger = true;
};

// The end of one-sided work.
struct Completion {
  std::uint64_t ticket = 0;  // as posted
  Status status;             // closed: flushed by teardown
};

// The completions of one interface: those that wait for poll(), oldest first, and a place for each
// piece of work that has not ended. So they have a bound, and a completion always finds its place.
class Completions {
 public:
  [[nodiscard]] bool has_room() const { return ended_.size() + outstanding_ < kMost; }
  // Takes a place; has_room() was asked before.
  void begin() { ++outstanding_; }
  // Fills a place that was taken. The number of the completion, from 1 on.
  std::uint64_t end(std::uint64_t ticket, Status status);
  // Interface::poll().
  std::size_t poll(std::span<Completion> completions);
  // How many completions poll() has given out.
  [[nodiscard]] std::uint64_t told() const { return told_; }

  static constexpr std::size_t kMost = 1024;

 private:
  Backlog<Completion> ended_;
  std::size_t outstanding_ = 0;
  std::uint64_t told_ = 0;
};

// The one-sided work of one endpoint, in the order in which it was posted. A failure breaks that
// order: work behind the failed one is not done. The break lasts until poll() has told of the
// failure, because only then can the caller know of it; what is posted from then on is a new
// sequence.
//
//   posted:   a  b  c  d       poll() tells: a ok, b failed      posted: e
//   b fails:  c and d, and what is posted now, end with behind()         e is done
//
// An endpoint numbers its work from 1 on and ends it oldest first. Lifetime: within that of the
// interface's completions.
class WorkOrder {
 public:
  explicit WorkOrder(Completions& completions) : completions_(completions) {}

  // One more was posted; its number.
  std::uint64_t begin();
  // The oldest has ended.
  void end(std::uint64_t ticket, Status status);
  [[nodiscard]] WorkState state(bool may_linger) const {
    return {begun_, ended_, at_work(), may_linger};
  }
  // How many have ended: the oldest that has not is the next.
  [[nodiscard]] std::uint64_t ended() const { return ended_; }

  // Work number `work` failed, maybe before it ends. During a break it changes nothing.
  void fail(std::uint64_t work, const Status& why);
  // Whether work that is posted now is not to be done.
  [[nodiscard]] bool is_broken();
  // How such work ends.
  [[nodiscard]] Status behind() const;
  // How many breaks are over. A target that knows this number of each piece of work can tell work
  // behind a failure from that of the next sequence.
  [[nodiscard]] std::uint32_t sequence() const { return sequence_; }
  // Whether there is work that poll() has not told the end of.
  [[nodiscard]] bool at_work() const {
    return ended_ != begun_ || completions_.told() < last_completion_;
  }

 private:
  Completions& completions_;
  std::uint64_t begun_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t last_completion_ = 0;    // its number among those of the interface
  std::uint64_t failed_ = 0;             // the work that broke the order; 0: it holds
  std::uint64_t failed_completion_ = 0;  // its completion; 0: it has not ended
  std::uint32_t sequence_ = 0;
  Status why_;
};

}  // namespace weft
