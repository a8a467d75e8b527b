// RankMap: the ranks of a context. These are all ranks of the job, or, after a split, some of them
// with new numbers. The keys of a split context have a prefix of their own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/job/store_events.h"

namespace weft {

// Immutable, thread safe as the store is. Keeps the events, and with them the store, alive.
class RankMap {
 public:
  explicit RankMap(std::shared_ptr<StoreEvents> events) : events_(std::move(events)) {}
  // The map of some of these ranks, in their new order. This rank must be one of them. `name`
  // becomes part of the prefix of its keys.
  [[nodiscard]] RankMap among(const std::vector<Rank>& ranks, const std::string& name) const;

  // What tells the contexts of a job apart; empty: the job's own.
  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  [[nodiscard]] Rank rank() const;
  [[nodiscard]] int size() const;
  Status put(const std::string& key, std::string bytes) const;
  [[nodiscard]] Result<std::string> get_from(Rank rank, const std::string& key,
                                             Deadline deadline) const;

  [[nodiscard]] StoreEvents& events() const { return *events_; }
  // From now on the membership gets the events of these ranks, with their numbers here.
  void add(Membership* membership) const { events_->add(membership, ranks_); }

 private:
  // The number in the job of a rank of this map.
  [[nodiscard]] Rank in_job(Rank rank) const;

  std::shared_ptr<StoreEvents> events_;
  std::vector<Rank> ranks_;  // numbers in the job, by number here; empty: all ranks, unchanged
  std::string prefix_;       // of all keys
};

}  // namespace weft
