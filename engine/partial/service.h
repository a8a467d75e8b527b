// service: a worker of partial all-reduce. It goes from a term to the next one when a rank is gone.
//
// If a rank of a term dies or leaves, the term fails on all ranks, in whatever they do. Each survivor
// begins a term of those that it knows to be alive, and reports to the generator: its newest group, and
// whether it is done with it. Who knows of fewer deaths than the others begins a term that fails in its
// turn. A group that a survivor was in runs again, with those that are not done with it. Its mean is
// computed beside the model, so a group that fails leaves the model as it was.
//
// Static groups have no generator, and no reports. The survivors agree on the iteration with which they go
// on, by the schedule of those that are left.
//
// Threads: one at a time. Internal to the module; others include partial.h.
#pragma once

#include <weft/memory.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/partial/term.h"

namespace weft {

struct GroupServiceOptions {
  std::string title;  // begins what errors say
  GroupLaw law{};
  std::uint64_t seed = 1;
  Output model{};  // of this rank
};

class GroupService {
 public:
  // Collective. The options are checked, and the same on all ranks.
  static Result<std::unique_ptr<GroupService>> open(std::unique_ptr<GroupHost> host,
                                                    GroupServiceOptions options);

  // Asks for the next group, unless it has.
  Status ask();
  // Takes part in all groups up to the one that answers the request, and returns the members of that one.
  // Then, if `asks`, asks for the next group at once.
  Result<std::vector<Rank>> average(bool asks);
  // Leaves, and waits until all have left. Collective.
  Status end();

  struct Usage {
    std::uint64_t messages_sent = 0, messages_received = 0;  // of this worker, with its generator
    std::uint64_t groups = 0;       // of more than one member, in which it took part
    std::uint64_t successions = 0;  // terms after the first
  };
  [[nodiscard]] const Usage& usage() const { return usage_; }

 private:
  GroupService(GroupServiceOptions options, std::vector<int> machines)
      : options_(std::move(options)), machines_(std::move(machines)) {}

  [[nodiscard]] bool is_static() const { return options_.law.kind == GroupLaw::Kind::scheduled; }
  // This rank, in the numbers of the first term.
  [[nodiscard]] Rank self() const {
    return term_->ranks()[static_cast<std::size_t>(term_->host().rank())];
  }
  // The number of the next average.
  [[nodiscard]] std::uint64_t iteration() const { return requests_ - (has_asked_ ? 1 : 0); }
  Status begin_term(std::unique_ptr<GroupHost> host, std::vector<Rank> ranks);
  void schedule();
  void say(const GroupMessage& message);
  Result<GroupMessage> next(bool leaves);
  Result<GroupMessage> next_static();
  [[nodiscard]] Result<std::vector<Rank>> scheduled(std::uint64_t iteration) const;
  Status meet();
  Status average_of(const std::vector<Rank>& group, const Input& x, const Output& y);
  Result<bool> run(const GroupMessage& group);
  void finish(const GroupMessage& group, bool asks);
  Status recover(Status why);
  Status resume();
  Status await(Rank number);
  void report();
  [[nodiscard]] std::vector<Rank> survivors(const Status& why);
  [[nodiscard]] bool is_known_gone(Rank number);
  Status end_static();
  [[nodiscard]] Status in_first_numbers(const Status& why) const;

  const GroupServiceOptions options_;
  std::vector<int> machines_;
  Memory mean_;
  std::unique_ptr<GroupTerm> term_;
  // Terms that have failed, until the next one has begun on all ranks: their ends would look like
  // departures to a rank that has not heard of the death.
  std::vector<std::unique_ptr<GroupTerm>> failed_;
  std::int64_t computes_since_ns_ = 0;
  std::uint64_t computed_us_ = 0;
  std::uint64_t requests_ = 0;
  bool has_asked_ = false;
  bool leaves_ = false;
  bool has_ended_ = false;
  GroupMessage newest_;  // the newest assignment; group 0: none
  Usage usage_;
  // Static groups: the ranks machine by machine, how many each machine has, and this rank's place there.
  std::vector<Rank> ranks_;
  std::vector<int> locals_;
  int place_ = 0;
  std::uint64_t resumed_at_ = 0;  // the iteration with which this term has begun
};

}  // namespace weft
