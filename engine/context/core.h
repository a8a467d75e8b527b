// core: the implementation of a Context. The Core holds the parts of a context and passes each call
// on: the Binder turns it into an BoundCall, and the Lane runs that. Each part has one duty:
//
//   Lane           engine/lane: token, interface, executions, thread; this one is driven by callers
//   SideLanes      the other lanes, which share large operations with the first
//   Peers          the ranks that this rank is connected to
//   RailSelection  which network interfaces carry what goes to other machines
//   MachineTable   which ranks are on which machine
//   PlanCache      plans by shape
//   GraphEdges     the graph, and the weights of a call on it; MachineGraph: the same for machines
//   Binder         from a Request to what an execution needs; DeviceBinder: with operands in GPU memory
//   Windows        the windows, by name; engine/window has what they do
//   Mail           engine/mail: small messages between ranks, for operations by name
//   LiveRails      what is left of all ranks' rails, for plans
//   Control        notices between ranks that belong to no operation
//   Failures       deaths, deadlines and errors, which end the context, and FirstFailure: which of
//                  them was the first on any lane
//
// Internal to the module.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/context/binder.h"
#include "engine/context/compressed.h"
#include "engine/context/context.h"
#include "engine/context/device_binder.h"
#include "engine/context/failures.h"
#include "engine/context/live_rails.h"
#include "engine/context/nccl_jobs.h"
#include "engine/context/prepared_call.h"
#include "engine/context/recording.h"
#include "engine/context/repeats.h"
#include "engine/context/side_lanes.h"
#include "engine/context/windows.h"
#include "engine/gpu/gpu.h"
#include "engine/job/job.h"
#include "engine/live/live.h"
#include "engine/mail/mail.h"

namespace weft {

// 0…size-1.
[[nodiscard]] std::vector<Rank> ranks_of_size(int size);

// What a rank says in split().
struct SplitChoice {
  std::int32_t color;  // negative: none
  std::int32_t key;
};
static_assert(sizeof(SplitChoice) == 2 * sizeof(std::int32_t));

// Threads: every function may be called by any thread. The parts belong to the holder of the lane's
// token, which the functions take.
class Context::Core : public std::enable_shared_from_this<Context::Core>, private MetricSource {
 public:
  // A rank that has come back to its job is alone in its core.
  static Result<std::shared_ptr<Core>> open(const Config& config, std::shared_ptr<Store> store);
  // The core of a new context of the ranks with this color; null for kNoColor. Collective.
  Result<std::shared_ptr<Core>> split(int color, int key);
  // Of ranks that know the choices of all.
  Result<std::shared_ptr<Core>> split(const std::vector<SplitChoice>& choices);
  enum class Extra : std::uint8_t { none, mail };
  // The core of a new context of these ranks, for a purpose. Collective over them. `number` tells it apart
  // from others of that purpose and these ranks.
  Result<std::shared_ptr<Core>> among(const std::vector<Rank>& ranks, std::string_view purpose,
                                      std::string_view number, Extra extra = Extra::none);
  // The core of a new context of those that are left, with ranks that are let in perhaps (survivors.h).
  Result<std::shared_ptr<Core>> left(const RankMap& left);
  [[nodiscard]] const RankMap& rank_map() const { return rank_map_; }
  [[nodiscard]] std::uint16_t number() const { return number_; }
  // The core of a new context of all ranks that are left. Collective over them.
  Result<std::shared_ptr<Core>> shrink();
  // Fails the context, unless it has failed, and tells the others why.
  void give_up(const Status& why);
  // Whether the rank has died or left, as far as this rank knows; and all that have not.
  [[nodiscard]] bool is_gone(Rank rank);
  // Whether the rank, to which this one is connected, has closed this context.
  [[nodiscard]] bool has_closed(Rank rank);
  [[nodiscard]] std::vector<Rank> members();
  ~Core() override;

  // Leaves the job. Operations in flight fail with `closed`.
  void close();

  const Config& config() const { return config_; }

  // Runs the operation to its end. Nothing is allocated once its shape is known.
  Status run(const Asked& asked);
  // Starts the operation.
  Result<Handle> start(const Asked& asked);
  // Runs the operation, and leaves it to its handle after `patience_ns`.
  Result<std::optional<Handle>> run_for(const Asked& asked, std::int64_t patience_ns);
  Result<Prepared> prepare(const Request& request);

  const Graph& graph() const { return edges_.graph(); }
  Status set_graph(const Graph& graph, bool weighted);
  std::optional<Graph> machine_graph();
  Status set_machine_graph(const Graph& graph, bool weighted);
  Result<Placement> placement();

  Result<bool> has_message(Rank from);

  [[nodiscard]] Windows& windows() { return windows_; }

  Result<Named> named(const NamedOptions& options);
  // For partial all-reduce: a core with mail, of the same ranks. Collective.
  static Result<std::unique_ptr<weft::GroupHost>> group_host(Context& context);
  // null: there is no window of this name.
  static std::shared_ptr<WindowObject> window_of(const Context& context, std::string_view name) {
    return context.core()->windows().object_of(name);
  }

  Usage usage();
  // `rank="0",context="job"`: of the metrics.
  [[nodiscard]] std::string metric_labels() const;
  std::string explain();
  // What the latest operations were, in docs/live.md's lines.
  void recall(FlightText& to) override;

  // The lane that callers drive. The pointer keeps the core alive.
  [[nodiscard]] std::shared_ptr<Lane> shared_lane() { return {shared_from_this(), &lane_}; }

 private:
  template <typename Host>
  class OnCore;     // on_core.h
  class NamedHost;  // named.cc
  class GroupHost;  // partial.cc

  Core(const Config& config, RankMap rank_map, std::uint16_t number, Hardware hardware,
       const AddressBook& addresses, const LaneOptions& lane, OpenedInterfaces opened,
       std::size_t most_lanes, Extra extra);
  static Result<std::shared_ptr<Core>> open_at(Config config, const RankMap& rank_map,
                                               std::uint16_t number, Hardware hardware,
                                               Extra extra = Extra::none);
  static Result<std::shared_ptr<Core>> open_and_join(const Config& config, const RankMap& rank_map,
                                                     std::uint16_t number, Hardware hardware,
                                                     Extra extra, LogVoice voice);
  Status join(MachineRecord machine);
  Status check_profile();
  Result<std::unique_ptr<SideLane>> open_side_lane(std::size_t number);
  // Whether the context has failed, with lane_.failure().
  [[nodiscard]] bool has_failed();
  // Whether the call may begin, and if not, why.
  [[nodiscard]] bool may_begin(const Asked& asked) {
    return !has_failed() && (asked.prepared == nullptr || asked.prepared->last() == nullptr ||
                             asked.prepared->last()->done.load(std::memory_order_acquire));
  }
  Status why_not(const Asked& asked) const;
  [[nodiscard]] bool plans_by_rails(const Request& request) const {
    return live_rails_.concerns(request) &&
           binder_.chooses(request.algorithm, request.input.count * size_of(request.input.type));
  }
  // Settles by which rails the call is planned, if that matters. An error if it may not begin.
  Status ready(const Asked& asked);
  [[nodiscard]] DeviceBinder::Operations operations();
  Status bind(const Request& request, Operation& operation, const DeviceBinder::How& how);
  // The slot that runs the call by running its last operation once more; null: none does.
  LaneSlot* slot_bound_to(const Asked& asked);
  // Binds and admits the operation of a call that no slot is bound to.
  Status begin(const Asked& asked, const std::shared_ptr<Operation>& operation);
  // Cuts the operation if it is large, and starts it on all lanes.
  Status admit(const std::shared_ptr<Operation>& operation);

  void collect(Metrics& to) override;
  // recall.cc; token.
  void recall(FlightText& to, const Status& failure);
  // Equal at all its ranks: "job", or what it was made of and for.
  [[nodiscard]] std::string context_name() const;
  [[nodiscard]] TraceContext trace_context() const;
  void collect_rails(Metrics& to);
  [[nodiscard]] std::vector<FlightRail> rails();
  // Into the file of WEFT_FLIGHT.
  void write_flight(const Status& failure);
  void wake();
  // Whether all addresses are known on all lanes. Gets those that are not, if it may ask.
  bool knows_addresses(bool may_ask);
  // Called when the machine records of all ranks have been read. `policies` is an error if two
  // ranks have different rail policies.
  void machines_read(const Status& policies);

  const Config config_;
  const RankMap rank_map_;
  const std::uint16_t number_;
  Hardware hardware_;
  std::uint32_t splits_ = 0;  // contexts that were made of this one

  std::shared_ptr<MetricsFile> metrics_file_;  // null: none is written
  std::shared_ptr<LiveServer> live_;           // null: nobody is answered
  std::shared_ptr<Recorder> recorder_;         // null: calls are not recorded
  const std::shared_ptr<GpuBell> bell_ = std::make_shared<GpuBell>([this] { wake(); });
  Trace trace_;
  Lane lane_;
  MachineTable machines_;
  RailSelection rails_;
  Peers peers_;
  PlanCache plans_;
  GraphEdges edges_;
  MachineGraph machine_graph_;
  Binder binder_;
  LiveRails live_rails_;
  Control control_;
  FirstFailure first_failure_;
  Failures failures_;
  Repeats repeats_;
  Windows windows_;
  NcclJobs nccl_;
  DeviceBinder devices_;
  Compressed compressed_;
  std::unique_ptr<Mail> mail_;  // null: there is none
  SideLanes sides_;
  std::atomic<bool> closed_ = false;

  Membership membership_;  // last, because its callbacks use the members above
};

}  // namespace weft
