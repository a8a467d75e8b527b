// Target: one-sided work of the peer. Our lane does it, only inside our shared heap and inside the regions that
// we expose, and answers.
//
// Work is begun in the order in which its origin sent it (WorkMessage::place). Most work has ended
// when begin_work() returns. Two kinds have not, because UCX goes on moving their data: large
// writes and reads. They are called bulk. Bulk waits only for unfinished work on the same bytes, so
// that it streams at full speed. All other work may publish or take a word, and waits for all
// unfinished work before it.
//
// If work is refused, the rest of its sequence (WorkOrder::sequence()) is refused, too: the work
// that its origin posted before it could know of the refusal.
//
// Owner: a UcxEndpoint, in whose lane everything here runs; an object lives as long as its endpoint.
// Internal to the module.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "verbs/ucx/layout.h"
#include "verbs/ucx/objects.h"

namespace weft::ucx {

class UcxInterface;

class Target {
 public:
  explicit Target(UcxEndpoint& endpoint);

  // Work of the peer has come; it is begun in the order of its places. False: the message breaks the
  // protocol. Sets `taken` if UCX has to keep the data for us.
  [[nodiscard]] bool take_work(const WorkMessage& work, const Arriving& data, bool& taken);
  // Begins work that has come and had to wait for earlier work.
  void proceed();
  [[nodiscard]] bool has_waiting_work() const { return !waiting_.empty(); }
  void drop_waiting();
  void send_answers();
  // Gives back what UCX no longer reads.
  void drop_answers();
  [[nodiscard]] bool owes_answers() const { return !answers_.empty(); }
  // Whether UCX still moves data between the peer and this memory of ours, or any.
  [[nodiscard]] bool moves(std::span<const std::byte> memory) const;
  [[nodiscard]] bool holds_memory() const;
  // Whether UCX reads no answer any more.
  [[nodiscard]] bool is_over() const;

 private:
  // The answer to one-sided work of the peer that was begun. Answers leave in the order of the
  // work.
  struct Answer {
    AnswerMessage message;
    std::span<const std::byte> place;  // our memory that the work reads or writes
    std::uint32_t sequence = 0;
    std::span<const std::byte> data;
    bool ready = false;
    bool sent = false;
    Lines copy;       // of data that did not leave at once
    Pending pending;  // UCX reads the message and the data, or the copy
    Target* target = nullptr;

    // Whether our memory is still being written or read for this work.
    [[nodiscard]] bool touches_memory() const {
      return !ready || (!data.empty() && (!sent || (pending && copy == nullptr)));
    }
  };
  // A place for work of the peer that was not begun. If `is_here`, the work has come and waits for
  // its turn; otherwise it has not come yet.
  struct Waiting {
    bool is_here = false;
    WorkMessage message;
    Arriving data;                // in UCX's memory, or in `copy`
    std::vector<std::byte> copy;  // if UCX's memory could not be kept
  };

  [[nodiscard]] static WorkRequest request_of(const WorkMessage& work);
  [[nodiscard]] bool may_begin(const WorkMessage& work, bool rendezvous) const;
  void begin_work(const WorkMessage& work, const Arriving& data, bool& taken);
  [[nodiscard]] WorkVerdict find_place(const WorkMessage& work, std::span<std::byte>& place) const;
  [[nodiscard]] bool keep(const WorkMessage& work, const Arriving& data, bool& taken);
  void free_kept(const Waiting& work);
  static void landed_write(void* request, ucs_status_t status, std::size_t bytes, void* answer);

  UcxEndpoint& endpoint_;
  UcxInterface& interface_;
  std::deque<Answer> answers_;
  std::deque<Waiting> waiting_;   // the peer's work not begun yet, by place
  std::uint64_t next_place_ = 0;  // the place of its first
  // The sequence of the peer's work in which one failed. The rest of that sequence is refused.
  std::optional<std::uint32_t> failed_sequence_;
  bool proceeding_ = false;
};

}  // namespace weft::ucx
