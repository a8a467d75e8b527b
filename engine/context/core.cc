// core: opening and closing a context, and running calls.
#include "engine/context/core.h"

#include <fmt/core.h>

#include <utility>

#include "engine/context/metrics.h"
#include "engine/context/operands.h"
#include "engine/job/job.h"

namespace weft {
namespace {

HeapOptions heap_options(const Config& config) {
  return {config.shm_dir, static_cast<std::size_t>(config.heap_mib) << 20,
          config.huge_pages == HugePageUse::off ? HugePages::off : HugePages::automatic,
          ranks_here(config)};
}

// The channel of the mail stands behind those of the operations.
std::uint32_t mail_channel(const Config& config) {
  return interface_options(config).channels;
}

MailOptions mail_options(const Config& config, std::uint16_t number) {
  return {.job = interface_options(config).job,
          .context = number,
          .channel = mail_channel(config),
          .payload_bytes = interface_options(config).payload_bytes};
}

// What all ranks must have alike for their plans to fit.
std::uint64_t tuning_of(const Config& config) {
  const bool is_usual = config.allreduce == Config().allreduce && config.piece_bytes == 0;
  if (config.profile_checksum == 0 && is_usual) return 0;
  return fnv1a64(
      fmt::format("{:x} {} {}", config.profile_checksum, config.allreduce, config.piece_bytes));
}

LaneOptions with_reducer(LaneOptions options, const std::shared_ptr<GpuBell>& bell) {
  options.execution.reducer_for_peers = gpu_reducer_for_peers(bell);
  return options;
}

}  // namespace

Context::Core::Core(const Config& config, RankMap rank_map, std::uint16_t number, Hardware hardware,
                    const AddressBook& addresses, const LaneOptions& lane, OpenedInterfaces opened,
                    std::size_t most_lanes, Extra extra)
    : config_(config),
      rank_map_(std::move(rank_map)),
      number_(number),
      hardware_(std::move(hardware)),
      trace_(config.trace.empty() ? 0 : kTraceRecords),
      lane_(with_reducer(lane, bell_), std::move(opened.interface), trace_.add_lane("lane"),
            membership_, failures_),
      machines_(config_, rank_map_, number,
                [this](const Status& policies) { machines_read(policies); }),
      rails_(config_, machines_, std::move(opened.rails), std::move(opened.reasons)),
      peers_(config_, addresses, lane_.interface(), rails_, membership_),
      plans_(peers_, trace_, lane_, [this] { return sides_.are_idle(); }),
      edges_(config_, peers_, *exponential_graph(config.size)),
      binder_(config_, plans_, peers_, edges_, machines_, machine_graph_),
      live_rails_(config_, interface_options(config).job, number, lane_, peers_, machines_,
                  rails_.opened(),
                  {.knows_all = [this](bool may_ask) { return knows_addresses(may_ask); },
                   .is_gone = [this](Rank rank) { return is_gone(rank); },
                   .fail = [this](const Status& why) { failures_.fail(why); }}),
      control_(config_, {interface_options(config).job, number}, lane_, peers_, &live_rails_),
      first_failure_([this] { wake(); }),
      failures_(config_, rank_map_, lane_, control_, &rails_, membership_, first_failure_),
      repeats_(lane_.admission().channels()),
      windows_(config_, trace_, lane_, peers_, edges_, membership_, bell_,
               [this](const Request& request) { return run(request); }),
      nccl_(config_, rank_map_, machines_, number),
      devices_(config_, binder_, nccl_, bell_, operations()),
      compressed_(config_, binder_, operations()),
      sides_(config_, machines_, most_lanes,
             [this](std::size_t side) { return open_side_lane(side); }),
      membership_({.on_change = [this] { wake(); },
                   .has_left = [this](Rank rank) { return peers_.has_left(rank); }}) {
  if (extra == Extra::none) return;
  mail_ = std::make_unique<Mail>(mail_options(config_, number_),
                                 [this](Rank rank) -> Result<Endpoint*> {
                                   WEFT_ASSIGN(const PeerConnection* peer, peers_.connection(rank));
                                   return peer->endpoint;
                                 });
}

DeviceBinder::Operations Context::Core::operations() {
  return {[this] { return Lane::new_operation(shared_lane()); },
          [this](const std::shared_ptr<Operation>& each) { return admit(each); }};
}

Status Context::Core::bind(const Request& request, Operation& operation,
                           const DeviceBinder::How& how) {
  return is_compressed(request) ? compressed_.bind(request, operation)
                                : devices_.bind(request, operation, how);
}

Result<std::shared_ptr<Context::Core>> Context::Core::open(const Config& config,
                                                           std::shared_ptr<Store> store) {
  Config decided = config;
  WEFT_RETURN_IF_ERROR(use_profile(decided));
  WEFT_RETURN_IF_ERROR(decided.check());
  const std::uint16_t number = store->next_context();
  RankMap rank_map(StoreEvents::of(store));
  // The transports are decided once for the job. Contexts made by split() use the same.
  decided.size = rank_map.size();
  decided.rank = rank_map.rank();
  WEFT_ASSIGN(decided.transports, agreed_transports(decided, *store));
  const bool has_returned = store->incarnation() != 0;
  if (has_returned && decided.on_death == OnDeath::fail) {
    return Status(Code::invalid_argument,
                  fmt::format("rank {} has come back to a job that goes on without it, which needs "
                              "OnDeath::skip (WEFT_ON_DEATH=skip)",
                              decided.rank),
                  decided.rank);
  }
  store.reset();
  if (has_returned) {
    if (decided.local_size == 0) decided.local_size = decided.size;
    rank_map = rank_map.alone(number);
  }
  return open_at(std::move(decided), rank_map, number, {});
}

Result<std::shared_ptr<Context::Core>> Context::Core::open_at(Config config,
                                                              const RankMap& rank_map,
                                                              std::uint16_t number,
                                                              Hardware hardware, Extra extra) {
  config.rank = rank_map.rank();
  config.size = rank_map.size();
  const LogVoice voice{config.log, rank_map.events().store().rank()};  // the rank in the job
  const LogScope scope(voice);
  Result<std::shared_ptr<Core>> joined =
      open_and_join(config, rank_map, number, std::move(hardware), extra, voice);
  if (!joined.ok()) rank_map.events().store().set_failure(joined.status());
  return joined;
}

Result<std::shared_ptr<Context::Core>> Context::Core::open_and_join(const Config& config,
                                                                    const RankMap& rank_map,
                                                                    std::uint16_t number,
                                                                    Hardware hardware, Extra extra,
                                                                    LogVoice voice) {
  WEFT_RETURN_IF_ERROR(configure_heap(heap_options(config)));
  MachineRecord machine = this_machine(config.host);
  InterfaceOptions options = interface_options(config);
  options.context = number;
  options.machine = machine.identity;
  if (extra == Extra::mail) options.channels = mail_channel(config) + 1;
  const AddressBook addresses(rank_map, number);
  WEFT_ASSIGN(OpenedInterfaces opened,
              open_interfaces(config, options, hardware, [addresses](Rank rank) {
                return addresses.address_of_joined(rank);
              }));
  if (!opened.memory_place.ok())
    opened.place.reason += "; memory is not: " + opened.memory_place.to_string();
  const std::size_t lanes =
      lanes_of(config, opened.rails, ranks_here(config), cores_here(config), may_have_gpu_memory());
  machine.lanes = static_cast<int>(lanes);
  machine.cores = cores_here(config);
  machine.tuning = tuning_of(config);
  const LaneOptions lane = lane_options(config, number, voice, opened);
  std::shared_ptr<Core> core(new Core(config, rank_map, number, std::move(hardware), addresses,
                                      lane, std::move(opened), lanes, extra));
  machine.nccl = core->nccl_.could();
  WEFT_RETURN_IF_ERROR(core->join(std::move(machine)));
  return core;
}

Status Context::Core::join(MachineRecord machine) {
  add_process_metrics();
  MetricRegistry::of_process().add(this);
  if (!config_.metrics.empty() && rank_map_.prefix().empty()) {
    WEFT_ASSIGN(metrics_file_, MetricsFile::open(trace_path(config_.metrics, config_.rank)));
  }
  if (!config_.record.empty() && number_ == 0 && rank_map_.prefix().empty()) {
    const RecordHead head{.rank = config_.rank,
                          .size = config_.size,
                          .fixed_bits = config_.bits == Bits::fixed ? 1U : 0U};
    WEFT_ASSIGN(recorder_, Recorder::open(trace_path(config_.record, config_.rank), head));
  }
  if (!config_.flight.empty())
    failures_.before_end([this](const Status& failure) { write_flight(failure); });
  if (!config_.live.empty() && rank_map_.prefix().empty()) {
    WEFT_ASSIGN(live_, LiveServer::open({.folder = config_.live,
                                         .job = live_job(config_.job_key),
                                         .rank = config_.rank,
                                         .answer = answer_of_process}));
  }
  rank_map_.add(&membership_);
  WEFT_RETURN_IF_ERROR(machines_.tell(std::move(machine), rails_.opened()));
  WEFT_RETURN_IF_ERROR(peers_.addresses().tell(lane_.interface().address()));
  return check_profile();
}

// A profile, or algorithms that were set, must be those of all ranks, and the profile that of this topology. Contexts of some
// of the ranks keep the settings.
Status Context::Core::check_profile() {
  if (tuning_of(config_) == 0 || !rank_map_.prefix().empty()) return {};
  const Lane::Hold hold(lane_);
  WEFT_ASSIGN(const Machines* all, machines_.get());
  const JobTopology& here = all->topology;
  if (config_.profile_topology.empty() || config_.profile_topology == here.hash) return {};
  return Status(
      Code::invalid_argument,
      fmt::format("WEFT_PROFILE={}: it was measured on the topology {}, and this job's is "
                  "{} ({}); run `weft tune` here, or unset WEFT_PROFILE",
                  config_.profile, config_.profile_topology, here.hash, here.about));
}

// A side lane needs fewer slots: what it sends is large, and its notices only name the memory.
Result<std::unique_ptr<SideLane>> Context::Core::open_side_lane(std::size_t number) {
  constexpr int kSlots = 2;
  Config config = config_;
  config.slots = std::min(config.slots, kSlots);
  InterfaceOptions options = interface_options(config);
  options.context = number_;
  options.machine = this_machine(config.host).identity;
  const AddressBook addresses(rank_map_, number_, number);
  WEFT_ASSIGN(OpenedInterfaces opened,
              open_interfaces(config, options, hardware_, [addresses](Rank rank) {
                return addresses.address_of_joined(rank);
              }));
  LaneOptions lane = with_reducer(lane_options(config, number_, lane_.voice(), opened), bell_);
  const std::vector<int>& used = machines_.known()->used[static_cast<std::size_t>(config.rank)];
  make_side_lane(lane, config, number, sides_.most(), used, opened.nodes);
  const LaneSurroundings around{
      config_, rank_map_, {options.job, number_}, rails_, membership_, first_failure_, lane_};
  auto side = std::make_unique<SideLane>(around, addresses, lane, std::move(opened.interface),
                                         trace_.add_lane(fmt::format("lane {}", number)));
  WEFT_RETURN_IF_ERROR(side->start());
  return side;
}

Context::Core::~Core() {
  close();
}

void Context::Core::wake() {
  lane_.interface().wake();
  sides_.wake();
}

bool Context::Core::knows_addresses(bool may_ask) {
  const auto knows = [may_ask](const Peers& peers) {
    return peers.addresses().knows_all() || (may_ask && peers.addresses().learn().ok());
  };
  return knows(peers_) && std::ranges::all_of(sides_.all(), [&knows](const auto& side) {
           return knows(side->peers());
         });
}

std::string Context::Core::context_name() const {
  const std::string& prefix = rank_map_.prefix();
  const std::string name = prefix.empty() ? "job" : prefix;
  return number_ == 0 ? name : fmt::format("{} {}", name, number_);
}

TraceContext Context::Core::trace_context() const {
  TraceContext context{context_name(), {}};
  for (Rank rank = 0; rank < config_.size; ++rank)
    context.ranks.push_back(rank_map_.incarnation(rank).rank);
  return context;
}

void Context::Core::close() {
  if (closed_.exchange(true)) return;
  metrics_file_.reset();
  live_.reset();
  MetricRegistry::of_process().remove(this);
  bell_->silence();
  nccl_.close();
  sides_.close();
  windows_.close(Status(Code::closed, "the context of this window was closed", config_.rank));
  lane_.close(
      [this] { failures_.fail(Status(Code::closed, "the context was closed", config_.rank)); });
  if (recorder_ != nullptr) recorder_->close();
  rank_map_.events().remove(&membership_);
  if (!trace_.on()) return;
  const LogScope scope(lane_.voice());
  if (Status status = trace_.write_chrome(config_.trace, config_.rank, trace_context());
      !status.ok())
    log(LogLevel::error, status.to_string());
}

bool Context::Core::has_failed() {
  failures_.follow_others();
  return !lane_.failure().ok();
}

Status Context::Core::admit(const std::shared_ptr<Operation>& operation) {
  WEFT_ASSIGN(const SideLanes::Parts parts, sides_.cut(operation));
  const std::uint64_t number = lane_.admission().number_of_next_call();
  lane_.admit(operation);
  sides_.post(parts, number);
  return {};
}

Status Context::Core::why_not(const Asked& asked) const {
  if (!lane_.failure().ok()) return lane_.failure();
  return invalid(fmt::format("{}: the run that was started last is under way",
                             name(asked.request.collective)));
}

Status Context::Core::ready(const Asked& asked) {
  if (!may_begin(asked)) return why_not(asked);
  if (!plans_by_rails(asked.request)) return {};
  if (const Status told = control_.listen(); !told.ok()) failures_.fail(told);
  if (const Status settled = live_rails_.settle(); !settled.ok()) failures_.fail(settled);
  return may_begin(asked) ? Status() : why_not(asked);
}

LaneSlot* Context::Core::slot_bound_to(const Asked& asked) {
  if (!lane_.admission().is_next_slot_free()) return nullptr;
  LaneSlot& next = lane_.admission().next_slot();
  const bool is_bound = asked.prepared != nullptr ? next.bound == asked.prepared->number()
                                                  : repeats_.repeats(next, asked.request);
  return is_bound ? &next : nullptr;
}

Status Context::Core::begin(const Asked& asked, const std::shared_ptr<Operation>& operation) {
  WEFT_RETURN_IF_ERROR(bind(asked.request, *operation, {}));
  if (recorder_ != nullptr) record_call(recorder_, asked.request, *operation);
  LaneSlot& next = lane_.admission().next_slot();
  const bool begins_there =
      lane_.admission().is_next_slot_free() && !is_of_some_ranks(asked.request.collective);
  WEFT_RETURN_IF_ERROR(admit(operation));
  if (!begins_there || operation->is_in_parts || operation->operands != nullptr ||
      operation->keeps != nullptr || recorder_ != nullptr)
    return {};
  if (asked.prepared != nullptr) {
    next.bound = asked.prepared->number();
  } else {
    repeats_.remember(next, asked.request);
  }
  return {};
}

Status Context::Core::run(const Asked& asked) {
  const Lane::Hold hold(lane_);
  WEFT_RETURN_IF_ERROR(ready(asked));
  if (LaneSlot* const bound = slot_bound_to(asked)) return lane_.repeat(*bound);
  std::shared_ptr<Operation> operation = lane_.blocking_operation();
  if (Status status = begin(asked, operation); !status.ok()) {
    lane_.keep(std::move(operation));
    return status;
  }
  return lane_.drive_to_end(std::move(operation));
}

Result<Handle> Context::Core::start(const Asked& asked) {
  std::shared_ptr<Operation> operation = Lane::new_operation(shared_lane());
  const Lane::Hold hold(lane_);
  WEFT_RETURN_IF_ERROR(ready(asked));
  WEFT_RETURN_IF_ERROR(lane_.start_thread());
  if (LaneSlot* const bound = slot_bound_to(asked)) {
    lane_.repeat(*bound, operation);
  } else {
    WEFT_RETURN_IF_ERROR(begin(asked, operation));
  }
  if (asked.prepared != nullptr) asked.prepared->set_last(operation);
  lane_.leave();
  return Handle(std::move(operation));
}

Result<std::optional<Handle>> Context::Core::run_for(const Asked& asked, std::int64_t patience_ns) {
  const Lane::Hold hold(lane_);
  WEFT_RETURN_IF_ERROR(ready(asked));
  const std::int64_t end_ns = now_ns() + patience_ns;
  std::shared_ptr<Operation> operation;
  Status status;
  if (LaneSlot* const bound = slot_bound_to(asked)) {
    status = lane_.repeat_until_ns(*bound, end_ns, shared_lane(), operation);
  } else {
    operation = Lane::new_operation(shared_lane());
    WEFT_RETURN_IF_ERROR(begin(asked, operation));
    if (lane_.drive_until_ns(*operation, end_ns)) {
      status = operation->status;
      operation = nullptr;
    }
  }
  if (!status.ok()) return status;
  if (operation == nullptr) return std::optional<Handle>();
  if (asked.prepared != nullptr) asked.prepared->set_last(operation);
  return std::optional<Handle>(Handle(std::move(operation)));
}

Result<Prepared> Context::Core::prepare(const Request& request) {
  const Lane::Hold hold(lane_);
  if (has_failed()) return lane_.failure();
  if (is_compressed(request)) {
    WEFT_RETURN_IF_ERROR(Compressed::check(request));
  } else {
    BoundCall bound_call;
    WEFT_RETURN_IF_ERROR(binder_.bind(request, bound_call));
  }
  return Prepared(
      std::make_shared<PreparedCall>(shared_from_this(), request, repeats_.new_number()));
}

void Context::Core::machines_read(const Status& policies) {
  if (!policies.ok()) return failures_.fail(policies);  // for whatever purpose they were read
  peers_.choose_rails();
  // Once on each machine, by its first rank.
  const bool is_first = machines_.known()->place_of(config_.rank) == 0;
  if (!is_first || !rank_map_.prefix().empty()) return;
  for (const std::string& rail : rails_.describe_lost()) log(LogLevel::warning, rail);
}

Status Context::Core::set_graph(const Graph& graph, bool weighted) {
  if (graph.size() != config_.size) {
    return invalid(fmt::format("set_graph: {} has {} ranks, the job has {}", graph.name(),
                               graph.size(), config_.size));
  }
  WEFT_RETURN_IF_ERROR(windows_.check_none("set_graph"));
  const Lane::Hold hold(lane_);
  // Operations in flight use the old graph's peers and weights.
  lane_.drive_until_none_of_all([this] { return sides_.are_idle(); });
  lane_.forget_bound();
  edges_.set(graph, weighted);
  return {};
}

Status Context::Core::set_machine_graph(const Graph& graph, bool weighted) {
  const Lane::Hold hold(lane_);
  WEFT_ASSIGN(const Machines* all, machines_.get());
  if (graph.size() != all->count()) {
    return invalid(fmt::format("set_machine_graph: {} has {} machines, the job has {}",
                               graph.name(), graph.size(), all->describe()));
  }
  lane_.forget_bound();
  machine_graph_.set(graph, weighted);
  return {};
}

std::optional<Graph> Context::Core::machine_graph() {
  const Lane::Hold hold(lane_);
  return machine_graph_.graph();
}

Result<Context::Placement> Context::Core::placement() {
  const Lane::Hold hold(lane_);
  WEFT_ASSIGN(const Machines* all, machines_.get());
  Placement placement;
  placement.local_rank = all->place_of(config_.rank);
  placement.local_size = static_cast<int>(all->ranks_beside(config_.rank).size());
  placement.machine_rank = all->layout.machine_of(config_.rank);
  placement.machine_size = all->count();
  placement.is_homogeneous = all->is_homogeneous();
  placement.layout = all->layout;
  placement.topology = fmt::format("{} ({})", all->topology.hash, all->topology.about);
  return placement;
}

Result<bool> Context::Core::has_message(Rank from) {
  const Lane::Hold hold(lane_);
  if (has_failed()) return lane_.failure();
  WEFT_ASSIGN(PeerConnection * peer, binder_.other_rank("has_message", from));
  lane_.look();
  if (has_failed()) return lane_.failure();
  const Admission& admission = lane_.admission();
  return !admission.is_taken(*peer, lane_.running()) &&
         peer->endpoint->front(admission.stream_channel()).header != nullptr;
}

Context::Usage Context::Core::usage() {
  const Lane::Hold hold(lane_);
  Usage usage;
  usage.connected_peers = peers_.all().size();
  usage.endpoint_bytes = lane_.interface().endpoint_bytes();
  usage.plans_cached = plans_.size();
  const Lane::Usage home = lane_.usage();
  usage.operations = home.completed;
  usage.allocations = home.allocations + plans_.allocations();
  usage.scratch_bytes = home.scratch_bytes;
  usage.network_bytes = peers_.network_bytes();
  for (const auto& side : sides_.all()) {
    const Lane::Hold hold_side(side->lane());
    usage.endpoint_bytes += side->lane().interface().endpoint_bytes();
    const Lane::Usage own = side->lane().usage();
    usage.allocations += own.allocations;
    usage.scratch_bytes += own.scratch_bytes;
    usage.network_bytes += side->peers().network_bytes();
  }
  return usage;
}

std::string Context::Core::explain() {
  const Lane::Hold hold(lane_);
  const LaneSlot* last = lane_.last();
  if (last == nullptr) return "no operation has run on this graph yet\n";
  const Plan& plan = *last->bound_call.plan;
  std::string text = fmt::format("{}: {} ({})\n", plan.operation, plan.algorithm, plan.reason);
  text += fmt::format("  {} in-edges, {} out-edges over {}\n", plan.in_degree, plan.out_degree,
                      lane_.interface().name());
  if (!lane_.place().reason.empty()) text += fmt::format("  lane: {}\n", lane_.place().reason);
  if (const std::string lanes = sides_.describe(); !lanes.empty())
    text += fmt::format("  lanes: {}\n", lanes);
  if (const int stripes = last->bound_call.call.stripes; stripes > 1)
    text += fmt::format("  in {} stripes, one a lane; of the first:\n", stripes);
  if (const Machines* all = machines_.known()) {
    text += fmt::format("  {}\n", all->describe());
    for (const std::string& rail : rails_.describe()) text += fmt::format("  {}\n", rail);
    for (const std::string& rail : rails_.describe_lost()) text += fmt::format("  {}\n", rail);
  } else if (rails_.is_waiting()) {
    text += fmt::format("  uses all rails until all ranks have joined: {} of {} have\n",
                        machines_.ranks_read(), config_.size);
  }
  if (const std::string gpu = describe_gpu_memory(); !gpu.empty())
    text += fmt::format("  GPU memory: {}\n", gpu);
  if (const std::string nccl = nccl_.describe(); !nccl.empty())
    text += fmt::format("  NCCL: {}\n", nccl);
  text += last->execution.describe();
  text += lane_.ways().describe();
  text += peers_.describe_paths(last->execution.call());
  for (const std::string& window : windows_.describe()) text += fmt::format("  {}\n", window);
  return text;
}

}  // namespace weft
