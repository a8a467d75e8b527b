// SimWork: the one-sided work of one end of a simulated path, on regions alone. A piece of work takes
// effect at the peer some turns after it was posted, in the order of posting or in any, and its answer
// takes some turns more. What a write carries is read from its source when it arrives, unless the path is
// cut before: then the network holds a copy, as real ones do.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "verbs/transport/transport.h"

namespace weft {

// What an end exposes, by number.
using SimRegions = std::map<std::uint32_t, std::span<std::byte>>;
// The turn in which something arrives that is sent now.
using SimDelay = std::function<std::uint64_t()>;

class SimWork {
 public:
  SimWork(Rank peer, Completions& completions)
      : peer_(peer), completions_(completions), order_(completions) {}

  void import_region(std::uint32_t number, const RegionKey& key) { regions_[number] = key; }
  void drop_region(std::uint32_t number) { regions_.erase(number); }
  // `over`: why nothing can be sent any more, if so.
  Posted post(const WorkRequest& what, const Status& over, const SimDelay& delay, bool in_order);
  // What is on its way arrives from the network's own copy from now on.
  void hold_copies();
  // Does what is due in the peer's memory. `sends`: the sender still lets its sources be read.
  void land(std::uint64_t now, const SimRegions& regions, bool sends, const SimDelay& delay);
  // What is on its way finds the peer's end closed.
  void drop_flying() { flying_.clear(); }
  void take_answers(std::uint64_t now);
  // Moves what has ended to the completions; all of it if the path has failed.
  void collect(const Status& failure);
  [[nodiscard]] WorkState state() const { return order_.state(lingers_); }

 private:
  struct Work {
    WorkRequest request;
    RegionKey key;
    std::uint64_t number = 0;  // in the order of the endpoint
    std::uint32_t sequence = 0;
    std::uint64_t due = 0;
    std::optional<std::vector<std::byte>> copy;
    std::optional<std::uint64_t> answer_due;  // it has landed
    std::vector<std::byte> answer;
    WorkVerdict verdict = WorkVerdict::done;
    bool has_ended = false;
    Status status;
  };

  [[nodiscard]] Status admit(Work& work);
  void carry_out(Work& work, std::span<std::byte> region) const;

  Rank peer_;
  Completions& completions_;
  WorkOrder order_;
  std::unordered_map<std::uint32_t, RegionKey> regions_;
  std::deque<std::shared_ptr<Work>> works_;   // without a completion, oldest first
  std::deque<std::shared_ptr<Work>> flying_;  // not landed, in the order of arrival
  std::optional<std::uint32_t> failed_sequence_;
  bool lingers_ = false;
};

}  // namespace weft
