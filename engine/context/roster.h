// Roster: the ranks of a context: all of the job, or, after a split, some of them, who count
// themselves anew and put under names of their own. Internal to the module.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/context/hub.h"

namespace weft {

// Immutable, thread safe as the store is. Keeps the hub, and with it the store, alive.
class Roster {
 public:
  explicit Roster(std::shared_ptr<Hub> hub) : hub_(std::move(hub)) {}
  // Of those of these ranks, in their new order. This rank must be one of them.
  [[nodiscard]] Roster among(const std::vector<Rank>& ranks, const std::string& name) const;

  [[nodiscard]] Rank rank() const;
  [[nodiscard]] int size() const;
  Status put(const std::string& key, std::string bytes) const;
  [[nodiscard]] Result<std::string> get_from(Rank rank, const std::string& key,
                                             Deadline deadline) const;

  [[nodiscard]] Hub& hub() const { return *hub_; }
  // What happens to these ranks is told to the membership, in their numbers here.
  void add(Membership* membership) const { hub_->add(membership, ranks_); }

 private:
  // The job's number of a rank here.
  [[nodiscard]] Rank in_job(Rank rank) const;

  std::shared_ptr<Hub> hub_;
  std::vector<Rank> ranks_;  // the job's, by their numbers here; empty: all, as they are
  std::string prefix_;       // of keys
};

}  // namespace weft
