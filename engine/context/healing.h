// healing: the operations of a context that goes on when ranks die (OnDeath::skip).
//
//   call ──► Healing ──► the Core of those that are there ──► ok
//                ▲             │ a rank has died, so this Core has failed on every rank
//                │             ▼
//                │        find_survivors(): who is left, and at which call they go on together
//                └─────── their Core, on which calls that had not ended begin again, in their order
//
// Each rank counts its calls of operations of all ranks. The survivors go on with the call after the last
// one that any of them had ended. A rank that has not come so far ends its earlier calls by a rule: a
// neighbor_allreduce leaves this rank with its own x, a barrier ends, and others end with the error. So
// ranks lose the calls by which they were behind, which are one or two where all run in step. A call that
// needs all ranks ends with the error and counts as ended.
//
// A rank that has come back is let in by admit(), which all call between two steps. It is alone at first, and every
// call but admit() is an error. When all of the others are in admit() and one of them knows that somebody
// waits, the lowest of them writes the entrance into the store (entrance.h); all leave their core, and meet
// with the newcomers in another one, as after a death. There a newcomer takes the state of a rank.
//
// The user's ranks are those of the job or of the split. Threads: every function may be called by any thread; while
// ranks agree, new calls wait, and the test() of a handle says that it is not done. Internal to the module.
#pragma once

#include <weft/graph.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/context/survivors.h"
#include "engine/request/request.h"

namespace weft {

class Context::Healing : public std::enable_shared_from_this<Context::Healing> {
 public:
  explicit Healing(std::shared_ptr<Core> first);
  ~Healing();
  Healing(const Healing&) = delete;
  Healing& operator=(const Healing&) = delete;
  // Waits until ranks that agree have done so.
  void close();

  // Of those that are there now.
  [[nodiscard]] std::shared_ptr<Core> core();
  [[nodiscard]] std::vector<Rank> members();
  // As the user sees this rank and its job.
  [[nodiscard]] const Config& config() const { return config_; }
  Result<std::vector<Rank>> admit(std::span<const Output> state);

  Status run(const Request& request);
  Result<Handle> start(const Request& request);
  Result<std::optional<Handle>> run_for(const Request& request, std::int64_t patience_ns);
  Result<Prepared> prepare(const Request& request);
  // All that are left have the new core, or none.
  Result<std::shared_ptr<Core>> split(int color, int key);

  // An error as long as this rank, which has come back, was not let in.
  [[nodiscard]] Status check_inside(std::string_view what) const;
  // An error while a rank is gone, for what belongs to a core.
  [[nodiscard]] Status check_whole(const char* what);
  Result<bool> has_message(Rank from);
  // Waits for the calls in flight.
  Status set_graph(const Graph& graph, bool weighted);
  // As the user has set it, without those that are gone. Valid until the next set_graph().
  [[nodiscard]] const Graph& graph();

  class Call;

 private:
  class Again;  // what a Prepared stands for
  // A request in the numbers of the present core.
  struct Translated {
    Request request;
    NeighborWeights weights;
    std::vector<NeighborWeight> sources, destinations;
    std::vector<Rank> group;
  };
  using Present = std::shared_ptr<const Survivors>;
  using Lock = std::unique_lock<std::mutex>;
  // On the way from one core to the next.
  struct Passage {
    Present from;
    std::optional<Entrance> entrance;  // once it was seen
    std::uint64_t resumed_at = 0;
  };

  // `where`: the core in which the call has ended here; or on others, if it ended by rule. Null if that is not known.
  Status run(const Request& request, Present& where);
  [[nodiscard]] std::shared_ptr<Call> new_call(const Request& request);
  Status finish(Call& call);
  // Goes on with a call whose handle is done, and returns whether it is over.
  bool go_on(Call& call);
  void settle(Call& call, const Present& in, const Status& status);
  [[nodiscard]] Status in_users_numbers(const Survivors& in, const Status& status) const;
  // `why`: how the core has failed; or ok, if it is left for an entrance.
  Status heal(const Present& failed, const Status& why, std::optional<Entrance> entrance = {});
  Result<const Entrance*> look(Passage& passage);
  Status meet(const Survivors& all, Passage& passage);
  Status hand_over(const Survivors& all, std::span<const std::uint64_t> needs,
                   const Passage& passage);
  // Finishes what is in flight.
  void finish_all();
  Status let_in();
  Status wait_outside();
  [[nodiscard]] bool is_anybody_inside() const;
  [[nodiscard]] GivenGraph given_graph();
  [[nodiscard]] std::vector<Incarnation> waiting_outside(const Survivors& members) const;
  Entrance new_entrance(const Survivors& members, std::uint64_t resumed_at);
  void wait_until_healed(Lock& lock);
  void forget_ended();
  void adopt(Survivors left, const Passage& passage);
  void begin_again(Call& call);
  void end(Call& call, Status status);
  Status set_healed_graph(const Graph& given, bool weighted);
  void tell(const std::vector<Rank>& before, const Graph& graph_before) const;
  Status translate(const Request& request, Translated& to) const;
  // Whether all ranks are there, so that their numbers in the present core are the user's.
  [[nodiscard]] bool is_whole() const { return present_->ranks.size() == numbers_.size(); }
  [[nodiscard]] Rank first_gone() const;
  [[nodiscard]] bool is_present(Rank rank) const {
    return rank < 0 || rank >= std::ssize(numbers_) ||
           numbers_[static_cast<std::size_t>(rank)] != kNoRank;
  }
  [[nodiscard]] Rank number_of(Rank rank) const;
  void number_ranks();

  const std::shared_ptr<Core>
      first_;  // whose ranks find_survivors() counts; alone: of a rank that has come back
  const Config config_;
  std::mutex mutex_;
  std::condition_variable changed_;  // is_healing_, blocking_
  bool is_healing_ = false;
  int blocking_ = 0;  // calls of run() in their core
  Present present_;
  std::vector<Present>
      failed_;  // closed when an operation has ended after them: a closed connection
                // would look like a departure to a rank that has not heard of the death
  std::vector<Rank> numbers_;  // in the present core, by rank; kNoRank: it is gone
  Graph given_;                // as it was set
  bool weighted_ = false;
  std::shared_ptr<const Graph> graph_;
  std::vector<std::shared_ptr<const Graph>> graphs_before_;  // somebody may look at one
  std::uint64_t calls_ = 0;                                  // of all ranks, so far
  std::uint64_t done_ = 0;  // 1 + the last of them that has ended here
  std::uint64_t resumed_at_ =
      0;  // the call with which all went on after the last death or entrance
  std::atomic<bool> is_outside_;  // it has come back and waits to be let in
  std::atomic<bool> needs_state_;
  const std::span<const Output>* state_ = nullptr;  // of the admit() that is under way
  std::vector<Rank> let_in_;                        // in that admit()
  std::vector<std::shared_ptr<Call>> in_flight_;    // in their order
  Status
      failure_;  // why it ends for good: it was closed, or the ranks that are left found no way to
                 // go on
};

}  // namespace weft
