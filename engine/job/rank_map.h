// RankMap: the ranks of a context. These are all ranks of the job, or, after a split, some of them
// with new numbers. The keys of a split context have a prefix of their own.
#pragma once

#include <cstdint>
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

  // The map of those of these ranks that are left. The prefix of its keys stands for them alone: whichever
  // map it is made from, of the same origin and number of the context, by whoever has heard of more deaths or fewer. The origin is
  // the first map, or one that among() has made.
  [[nodiscard]] RankMap left(const std::vector<Rank>& ranks, std::uint16_t context) const;

  // What tells the contexts of a job apart; empty: the job's own.
  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  [[nodiscard]] Rank rank() const;
  [[nodiscard]] int size() const;
  Status put(const std::string& key, std::string bytes) const;
  // Waits until the rank has put it. The wait also ends when another rank has died: the context has failed
  // then, and the one that is waited for may never come. Among survivors, likewise when one has left.
  [[nodiscard]] Result<std::string> get_from(Rank rank, const std::string& key,
                                             Deadline deadline) const;

  [[nodiscard]] StoreEvents& events() const { return *events_; }
  // From now on the membership gets the events of these ranks, with their numbers here.
  void add(Membership* membership) const { events_->add(membership, ranks_); }

 private:
  // An error if somebody is gone, so that others may never come.
  [[nodiscard]] Status why_in_vain() const;
  // The number in the job of a rank of this map.
  [[nodiscard]] Rank in_job(Rank rank) const;
  // The number here of a rank of the job; kNoRank: it is not of this map.
  [[nodiscard]] Rank number_of(Rank in_job) const;

  std::shared_ptr<StoreEvents> events_;
  std::vector<Rank> ranks_;  // numbers in the job, by number here; empty: all ranks, unchanged
  std::string prefix_;       // of all keys
  std::string origin_;       // the prefix of the origin
};

// A name for a set of ranks, which is as short for a thousand of them.
[[nodiscard]] std::string digest_of(const std::vector<Rank>& ranks);

}  // namespace weft
