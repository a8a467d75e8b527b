// Core: what is behind a Context. Internal to the module.
//
// One Core is one lane over the rank's interfaces: a token, an execution per channel, and a queue
// of operations that wait for a channel. Whoever holds the token drives everything.
// PendingOperation n uses channel 1 + n % channels, on all ranks alike, so a channel's messages
// belong to one operation at a time and need no matching. Operations of some ranks have the last
// channel to themselves (partial.cc).
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "engine/context/context.h"
#include "engine/context/hub.h"
#include "engine/context/machines.h"
#include "engine/context/roster.h"
#include "engine/context/ways.h"
#include "engine/execute/execute.h"
#include "engine/membership/membership.h"
#include "engine/trace/trace.h"
#include "verbs/progress/progress.h"

namespace weft {

// A plan in the cache, with its peers where the plan itself names them (operations over all ranks).
struct CachedPlan {
  Plan plan;
  View view;  // as planned; of a group_average: places in the group
  std::vector<Contact*> in, out;
  std::uint16_t trace_name = 0;
};

// Everything that an execution needs to start. The call's spans point to what lives as long as the
// graph or the plan, or to the storage here.
struct Invocation {
  const CachedPlan* plan = nullptr;
  Call call;
  std::vector<Contact*> in, out;
  std::vector<double> receive_weights, send_weights;
  std::vector<Range> given, given_input;

  void clear();
};

// What a blocking call asks for, if this says all of it; calls with counts, for example, say more.
struct Asking {
  bool is_whole = false;
  Collective collective{};
  const Input& input;
  const Output& output;
  Rank root = kNoRank;
  ReduceOp op{};
  AllreduceAlgorithm algorithm{};
  // Of a neighbor_allreduce that names all its peers. They may be others the next time.
  const NeighborWeights* weights = nullptr;
};
// What was asked for last: a call that asks for the same again is neither checked nor bound anew.
// The small members do not stand together: compilers compare neighbors as one word, which they put
// together in memory and read back before it is there.
struct Asked {
  bool is_whole = false;
  Collective collective{};
  ReduceOp op{};
  AllreduceAlgorithm algorithm{};
  Input input{};
  Rank root = kNoRank;
  Output output{};
  bool has_weights = false;

  friend bool operator==(const Asked& asked, const Asking& asking) {
    return asked.is_whole && asking.is_whole && asked.collective == asking.collective &&
           asked.op == asking.op && asked.algorithm == asking.algorithm &&
           asked.input == asking.input && asked.root == asking.root &&
           asked.output == asking.output && asked.has_weights == (asking.weights != nullptr);
  }
};

// A started operation as handles see it.
class PendingOperation {
 public:
  explicit PendingOperation(std::weak_ptr<Context::Core> owner) : core(std::move(owner)) {}

  std::weak_ptr<Context::Core> core;
  Invocation invocation;  // until it runs
  std::atomic<bool> done{false};
  Status status;     // valid once done
  std::mutex mutex;  // guards `calls`
  std::vector<std::function<void(const Status&)>> calls;
};

class Context::Core : public std::enable_shared_from_this<Context::Core> {
 public:
  static Result<std::shared_ptr<Core>> open(const Config& config, std::shared_ptr<Store> store);
  // The core of this rank's color; null for none. Collective.
  Result<std::shared_ptr<Core>> split(int color, int key);
  ~Core();

  // Leaves the job. Operations in flight fail with `closed`.
  void close();

  const Config& config() const { return config_; }
  const Graph& graph() const { return graph_; }
  Status set_graph(Graph graph, bool weighted);

  // Fills the invocation of the next operation: collectives.cc. The lane's token is held.
  Status invoke_neighbor_allreduce(Invocation& invocation, const Input& x, const Output& y,
                                   const NeighborWeights& weights);
  Status invoke_neighbor_allgather(Invocation& invocation, const Input& x, const Output& y,
                                   std::span<const std::size_t> counts);
  Status invoke_allreduce(Invocation& invocation, const Input& x, const Output& y, ReduceOp op,
                          AllreduceAlgorithm algorithm);
  Status invoke_broadcast(Invocation& invocation, const Input& x, const Output& y, Rank root);
  Status invoke_barrier(Invocation& invocation);
  // parts.cc
  Status invoke_allgather(Invocation& invocation, const Input& x, const Output& y,
                          std::span<const std::size_t> counts);
  Status invoke_reduce_scatter(Invocation& invocation, const Input& x, const Output& y, ReduceOp op,
                               std::span<const std::size_t> counts);
  Status invoke_gather(Invocation& invocation, const Input& x, const Output& y, Rank root,
                       std::span<const std::size_t> counts);
  Status invoke_scatter(Invocation& invocation, const Input& x, const Output& y, Rank root,
                        std::span<const std::size_t> counts);
  Status invoke_alltoall(Invocation& invocation, const Input& x, const Output& y,
                         std::span<const std::size_t> send_counts,
                         std::span<const std::size_t> receive_counts);
  Status invoke_reduce(Invocation& invocation, const Input& x, const Output& y, Rank root,
                       ReduceOp op);
  // hierarchical.cc, placement.cc: what knows machines
  Status invoke_hierarchical(Invocation& invocation, const Input& x, const Output& y,
                             const NeighborWeights& weights);
  Status invoke_local_allreduce(Invocation& invocation, const Input& x, const Output& y,
                                ReduceOp op);
  Status set_machine_graph(Graph graph, bool weighted);
  std::optional<Graph> machine_graph();
  Result<Placement> placement();
  // partial.cc: operations of some ranks
  Status invoke_send(Invocation& invocation, const Input& x, Rank to);
  Status invoke_recv(Invocation& invocation, const Output& y, Rank from);
  Status invoke_pair_average(Invocation& invocation, const Input& x, const Output& y, Rank peer,
                             double self_weight, double pair_weight);
  Status invoke_group_average(Invocation& invocation, const Input& x, const Output& y,
                              std::span<const Rank> ranks);

  // Runs what `fill` asks for, to its end. No allocation once the shape is known.
  template <typename Fill>
  Status run(Fill&& fill) {
    return run(Asking{false, {}, {}, {}}, std::forward<Fill>(fill));
  }
  template <typename Fill>
  Status run(const Asking& asking, Fill&& fill) {
    take_lane();
    Status status = run_filled(asking, std::forward<Fill>(fill));
    token_.release();
    return status;
  }
  template <typename Fill>
  Result<Handle> start(Fill&& fill) {
    auto operation = std::make_shared<PendingOperation>(weak_from_this());
    take_lane();
    Status status = failed_ ? failure_ : fill(operation->invocation);
    if (status.ok()) enqueue(operation);
    token_.release();
    if (!status.ok()) return status;
    wake_thread();
    return Handle(std::move(operation));
  }
  // The same for an operation of some ranks.
  template <typename Fill>
  Status run_partial(Fill&& fill) {
    take_lane();
    Status status = failed_ ? failure_ : run_partial_filled(std::forward<Fill>(fill));
    token_.release();
    return status;
  }
  template <typename Fill>
  Result<Handle> start_partial(Fill&& fill) {
    auto operation = std::make_shared<PendingOperation>(weak_from_this());
    take_lane();
    Status status = failed_ ? failure_ : fill(operation->invocation);
    if (status.ok()) enqueue_partial(operation);
    token_.release();
    if (!status.ok()) return status;
    wake_thread();
    return Handle(std::move(operation));
  }

  bool test(PendingOperation& operation);
  Status wait(PendingOperation& operation);
  void then(const std::shared_ptr<PendingOperation>& operation,
            std::function<void(const Status&)> call);

  Usage usage();
  std::string explain();

 private:
  // One operation at a time runs here.
  struct Slot {
    explicit Slot(const ExecutionOptions& options) : execution(options) {}
    Execution execution;
    Invocation invocation;
    Asked asked;                                  // what the invocation is for, and
    std::uint64_t asked_at = 0;                   // plans_dropped_ then
    std::shared_ptr<PendingOperation> operation;  // of a non-blocking call
    std::int64_t deadline_ns = 0;
    std::uint64_t number = 0;   // among all operations, or among those of some ranks
    bool is_partial = false;    // of some ranks
    std::uint32_t queries = 0;  // rounds of the slow path that found it waiting
  };

  // A caller that drives the lane. Counted under the token, so without the locked instruction that
  // would stall the hot path; the lane's thread only looks.
  class Waiting {
   public:
    explicit Waiting(std::atomic<int>& count) : count_(count) { add(1); }
    ~Waiting() { add(-1); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    void add(int change) {
      count_.store(count_.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
    }
    std::atomic<int>& count_;
  };

  Core(const Config& config, Roster roster, std::uint16_t number, Hardware hardware);
  static Result<std::shared_ptr<Core>> open_at(const Config& config, Roster roster,
                                               std::uint16_t number, Hardware hardware);
  Status join();
  [[nodiscard]] ExecutionOptions execution_options(std::uint32_t channel);

  // Takes the lane's token; whoever sleeps with it is woken and lends it.
  void take_lane() {
    token_.acquire([this] { interface_->wake(); });
  }

  // lane.cc: running operations.
  template <typename Fill>
  Status run_filled(const Asking& asking, Fill&& fill) {
    if (failed_) return failure_;
    Slot& slot = next_slot();
    if (!queue_.empty() || is_running(slot)) wait_for_turn();
    if (failed_) return failure_;
    if (slot.asked == asking && slot.asked_at == plans_dropped_ &&
        (asking.weights == nullptr || reweigh(slot.invocation, *asking.weights))) {
      begin(slot, true);
      return run_to_end(slot);
    }
    slot.asked.is_whole = false;
    slot.invocation.clear();
    if (Status status = fill(slot.invocation); !status.ok()) return status;
    slot.asked = {asking.is_whole, asking.collective, asking.op,     asking.algorithm,
                  asking.input,    asking.root,       asking.output, asking.weights != nullptr};
    slot.asked_at = plans_dropped_;
    begin(slot);
    return run_to_end(slot);
  }
  Slot& next_slot() { return *slots_[next_slot_]; }
  static bool is_running(const Slot& slot) {
    return slot.execution.state() == Execution::State::running;
  }
  void enqueue(std::shared_ptr<PendingOperation> operation);
  void wait_for_turn();
  void wait_for_all();
  Status run_to_end(Slot& slot);
  void begin(Slot& slot, bool is_again = false);
  bool advance(std::size_t index);
  void flush();
  void finish(Slot& slot);
  bool advance_all();
  void take_turn();
  bool advance_running();
  bool core_is_wanted();
  void start_queued();
  template <typename Done>
  void drive(Done&& done);
  void drive_to_end(PendingOperation& operation);
  void drive_until_relieved(const std::function<bool()>& relieved);
  void complete(const std::shared_ptr<PendingOperation>& operation, Status status);

  // partial.cc: operations of some ranks.
  template <typename Fill>
  Status run_partial_filled(Fill&& fill) {
    std::shared_ptr<PendingOperation> operation = spare_operation();
    if (Status status = fill(operation->invocation); !status.ok()) return status;
    return run_partial_to_end(std::move(operation));
  }
  std::shared_ptr<PendingOperation> spare_operation();
  Status run_partial_to_end(std::shared_ptr<PendingOperation> operation);
  void enqueue_partial(std::shared_ptr<PendingOperation> operation);
  void start_partial_queued();
  bool claim(const Call& call);
  Slot& idle_partial_slot();
  Result<Contact*> other_rank(std::string_view what, Rank rank);
  Status place_in_group(std::span<const Rank> ranks, int& place);

  // placement.cc
  Status tell_machine(MachineRecord own);
  // Read from the store when first asked for; then there for good. `timed_out` where a rank has not
  // joined by then.
  Result<const Machines*> machines() {
    return machines_told_by(Deadline::after_ms(config_.deadline_ms));
  }
  Result<const Machines*> machines_told_by(Deadline deadline);
  Result<const Layout*> layout_for(AllreduceAlgorithm algorithm);

  // hierarchical.cc
  Status use_machine_graph(Rank own);
  Status bind_machines(const NeighborWeights& weights, Rank own, int machines);
  std::uint32_t number_of_machine_step();
  void weigh_edges(std::span<Contact* const> ranks, std::span<const NeighborWeight> machines,
                   const Layout& layout, std::vector<double>& weights) const;

  // watch.cc: the unlikely, looked at about once per millisecond of waiting.
  void look_around();
  bool check_gone();
  bool check_paths();
  Rank missing_and_gone(Slot& slot);
  void check_control();
  void handle_control(Contact& contact);
  void answer_query(Contact& contact, const WireHeader& header);
  void ask_missing(Slot& slot);
  void fail_all(const Status& status, bool touched = false);
  void tell_failure(const Status& status);
  Status waited_too_long(Slot& slot);
  bool has_left(Rank rank);

  // peers.cc
  Status tell_address();
  Result<Contact*> contact(Rank rank);
  Result<Contact*> connected(Rank rank);
  [[nodiscard]] bool has_choice_of_rails() const;
  Status ask_for_machines();
  void choose_rails();
  Status choose_rails_to(Contact& contact);
  void use_rails_to(Contact& contact);
  [[nodiscard]] std::vector<std::string> used_rails() const;
  // The contact if it was asked for lately, else nullptr.
  [[nodiscard]] Contact* recent_contact(Rank rank) const {
    Contact* recent = recent_contacts_[static_cast<std::size_t>(rank) % recent_contacts_.size()];
    return recent != nullptr && recent->rank == rank ? recent : nullptr;
  }
  Result<std::string> address_of(Rank rank);
  [[nodiscard]] std::string describe_paths(const Call& call) const;
  Status contacts(std::span<const Rank> ranks, std::vector<Contact*>& into);

  // plans.cc
  struct PlanKey {
    Collective collective{};
    std::uint8_t algorithm = 0;
    bool in_place = false;
    std::uint32_t in = 0, out = 0, position = 0;
    Rank root = kNoRank;
    std::uint64_t bytes = 0;
    friend bool operator==(const PlanKey&, const PlanKey&) = default;
  };
  struct PlanKeyHash {
    std::size_t operator()(const PlanKey& key) const;
  };
  // The cached plan of that shape, or what `make` gives. Peers named by the plan itself are
  // connected.
  template <typename Make>
  Result<const CachedPlan*> plan(const PlanKey& key, Make&& make) {
    if (last_plan_ != nullptr && last_key_ == key) return last_plan_;
    const auto found = plans_.find(key);
    if (found != plans_.end()) {
      last_plan_ = found->second.get();
    } else {
      last_plan_ = nullptr;
      WEFT_ASSIGN(last_plan_, new_plan(key, make()));
    }
    last_key_ = key;
    return last_plan_;
  }
  Result<const CachedPlan*> new_plan(const PlanKey& key, Planned planned);
  Status plan_neighbors(Invocation& invocation, Collective collective, bool in_place);
  template <typename Make>
  Status plan_everybody(Invocation& invocation, const PlanKey& key, Make&& make) {
    WEFT_ASSIGN(invocation.plan, plan(key, make));
    invocation.call.in = invocation.plan->in;
    invocation.call.out = invocation.plan->out;
    invocation.call.checks_graph = false;  // everybody is in it: no graphs could differ
    return {};
  }

  // threads.cc
  void wake_thread();
  void let_callers_go_on(std::unique_lock<std::mutex>& lock);
  void hand_over();
  void lane_loop();
  void completion_loop();
  void stop_lane_thread();
  void stop_completion_thread();

  Status use_graph_edges(Invocation& invocation);
  Status connect_graph();
  Status bind_pull(Invocation& invocation, std::span<const NeighborWeight> sources);
  Status bind_push(Invocation& invocation, std::span<const NeighborWeight> targets);
  Status bind_dynamic(Invocation& invocation, const NeighborWeights& weights);
  static bool reweigh(Invocation& invocation, const NeighborWeights& weights);
  Status bind_reduction(std::string_view what, Call& call, DataType type, ReduceOp op, int ranks);
  Status give_parts(std::string_view what, std::vector<Range>& parts,
                    std::span<const std::size_t> counts, std::size_t each);
  Status check_root(std::string_view what, Rank root) const;

  Config config_;
  Roster roster_;
  const LogVoice voice_;  // of what is logged for this context; the rank is the job's
  std::uint16_t number_;
  std::uint32_t splits_ = 0;
  std::uint32_t job_ = 0;
  WaitPolicy policy_;
  std::unique_ptr<Interface> interface_;
  Hardware hardware_;
  std::vector<RailRecord> rails_;  // by their numbers in the bond
  std::vector<std::string> rail_reasons_;
  // Whom the choice of rails waits for is asked again then, and after how long the next time;
  // uses_all_rails_: never.
  std::int64_t choose_again_ns_ = 0;  // 0: nobody has asked
  std::int64_t choose_wait_ns_ = 0;
  bool uses_all_rails_ = false;
  LanePlace place_;

  LaneToken token_;
  // Everything from here to the threads belongs to the token's holder.
  ScratchPool scratch_;  // of all slots
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> running_;
  bool stirred_ = false;  // something running may have a step to do
  std::deque<std::shared_ptr<PendingOperation>> queue_;
  std::uint64_t next_operation_ = 0;
  std::size_t next_slot_ = 0;  // next_operation_ modulo the slots, without the division
  // Operations of some ranks: where they run, those idle, those that wait for a free way to their
  // peers, and the last blocking one's, to be used again.
  std::vector<std::unique_ptr<Slot>> partial_slots_;
  std::vector<Slot*> idle_partial_slots_;
  std::deque<std::shared_ptr<PendingOperation>> partial_queue_;
  std::shared_ptr<PendingOperation> spare_operation_;
  bool partial_ended_ = false;  // since the queue was last looked through
  std::uint64_t partial_operations_ = 0;
  std::uint64_t looks_ = 0;
  std::uint64_t completed_ = 0;
  bool failed_ = false;
  bool closed_ = false;
  std::int64_t looked_ns_ = 0;  // when test() last looked around
  Status failure_;
  Epoch membership_epoch_ = 0;

  Graph graph_;
  bool weighted_ = false;
  std::vector<Contact*> graph_in_, graph_out_;  // connected at the first operation on the graph
  std::vector<double> graph_weights_;           // receive weights, by in-edge
  double graph_self_weight_ = 1.0;
  bool graph_connected_ = false;

  std::vector<MachineRecord> machine_records_;  // of the ranks from 0 that were read
  std::optional<Machines> machines_;            // once something needed them, and
  Status hierarchical_;                         // whether they can be planned for as such
  std::optional<Graph> machine_graph_;
  bool machine_weighted_ = false;
  // The machines of one call, ascending, with their weights: scratch.
  struct MachineStep {
    double self = 1.0;
    std::vector<NeighborWeight> in, out;
  } machine_step_;
  std::vector<Rank> machine_set_;  // those alone, in and out; scratch
  // The sets that plans were made for, numbered; emptied with the cache of plans, numbers go on.
  std::map<std::vector<Rank>, std::uint32_t> machine_sets_;
  std::uint32_t next_machine_set_ = 0;

  std::vector<NeighborWeight> sorted_;  // scratch of per-call views
  std::vector<Rank> group_;             // and of the members of a group

  std::mutex contacts_mutex_;  // for insertion, and for has_left() on the watcher's thread
  std::unordered_map<Rank, std::unique_ptr<Contact>> contacts_;
  // The contacts used last, by rank modulo the size: graphs that change every step look up a few of
  // them each time.
  std::array<Contact*, 64> recent_contacts_{};
  std::unordered_map<PlanKey, std::unique_ptr<const CachedPlan>, PlanKeyHash> plans_;
  PlanKey last_key_;
  const CachedPlan* last_plan_ = nullptr;
  std::uint64_t plans_dropped_ = 0;  // how often the cache was emptied
  std::vector<Execution::Missing> missing_;
  const Slot* last_slot_ = nullptr;
  std::uint64_t allocations_ = 0;

  Trace trace_;
  TraceRing* ring_ = nullptr;

  // The lane's thread: runs when operations are in flight and nobody waits.
  std::mutex thread_mutex_;
  std::condition_variable thread_wanted_;
  bool thread_called_ = false;
  std::atomic<bool> stopping_{false};
  bool completion_stopping_ = false;
  std::thread lane_thread_;
  std::atomic<int> waiters_{0};
  std::atomic<std::uint32_t> waits_{0};  // that ended; counted under the token
  std::atomic<int> in_flight_{0};

  std::mutex completion_mutex_;
  std::condition_variable completion_wanted_;
  std::deque<std::shared_ptr<PendingOperation>> completed_operations_;
  std::thread completion_thread_;

  Membership membership_;  // last: its callbacks use what stands above
};

}  // namespace weft
