// RankMap: the ranks of a context. These are all ranks of the job, or, after a split, some of them
// with new numbers. The keys of a split context have a prefix of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
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
  // The same of the job's own map, with ranks that are let in. All are sorted by rank. `entrances`: how often
  // ranks were let in, with this time.
  [[nodiscard]] RankMap joined_by(const std::vector<Incarnation>& newcomers,
                                  const std::vector<Rank>& left, std::uint16_t context,
                                  int entrances) const;
  // The map of this rank alone, which has come back to a job and is not let in yet.
  [[nodiscard]] RankMap alone(std::uint16_t context) const;
  // Looks whether others go another way than this rank: an error if so. It is told the rank that is waited for, if
  // one is.
  using Look = std::function<Status(Rank awaited)>;
  // A copy whose waits also end with the error of `look`, which every turn of a wait calls. So does look().
  [[nodiscard]] RankMap with_look(Look look) const;
  [[nodiscard]] Status look(Rank awaited = kNoRank) const {
    return look_ ? look_(awaited) : Status();
  }

  // What tells the contexts of a job apart; empty: the job's own.
  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  [[nodiscard]] Rank rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] Incarnation incarnation(Rank rank) const;
  [[nodiscard]] int entrances() const { return entrances_; }
  // A name for these incarnations, which is as short for a thousand of them.
  [[nodiscard]] std::string digest() const;
  // Whether it is that of alone(); and whether it is that or the job's own.
  [[nodiscard]] bool is_outside() const { return is_outside_; }
  [[nodiscard]] bool is_jobs_own() const { return prefix_.empty() || is_outside_; }
  Status put(const std::string& key, std::string bytes) const;
  // Takes back what this rank has put, if this is a map of those that are left. Each makes a context of its own, and a
  // job may lose ranks again and again.
  void take_back_all() const;
  // Waits until the rank has put it. The wait also ends when another rank has died: the context has failed
  // then, and the one that is waited for may never come. Among survivors, likewise when one has left.
  [[nodiscard]] Result<std::string> get_from(Rank rank, const std::string& key,
                                             Deadline deadline) const;

  // What some rank has put by now. Over PMIx always an error, as that of Store::get().
  [[nodiscard]] Result<std::string> get_now(const std::string& key) const {
    return events_->store().get(prefix_ + key, Deadline::after_ms(0));
  }

  [[nodiscard]] StoreEvents& events() const { return *events_; }
  // From now on the membership gets the events of these ranks, with their numbers here.
  void add(Membership* membership) const { events_->add(membership, incarnations_); }

 private:
  [[nodiscard]] RankMap of_those_left(std::vector<Incarnation> incarnations, std::uint16_t context,
                                      int entrances) const;
  // An error if somebody is gone, so that others may never come.
  [[nodiscard]] Status why_in_vain() const;
  // The number here of a rank of the job; kNoRank: it is not of this map.
  [[nodiscard]] Rank number_of(Rank in_job) const;

  std::shared_ptr<StoreEvents> events_;
  std::vector<Incarnation>
      incarnations_;  // numbers in the job, by number here; empty: all ranks as they were at first
  std::string prefix_;  // of all keys
  std::string origin_;  // the prefix of the origin
  int entrances_ = 0;
  bool is_outside_ = false;
  Look look_;  // empty: none
  struct Keys {
    std::mutex mutex;
    std::vector<std::string> all;
  };
  std::shared_ptr<Keys> put_;  // null: they stay
};

// A name for a set of ranks, which is as short for a thousand of them.
[[nodiscard]] std::string digest_of(const std::vector<Rank>& ranks);

}  // namespace weft
