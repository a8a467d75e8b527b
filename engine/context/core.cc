// Opening and closing a context: heap, interface, channels, address exchange.
#include "engine/context/core.h"

#include <fmt/core.h>

#include <fstream>

namespace weft {
namespace {

// The ranks of a machine share its last cache; each brings an input and an output of about the same
// size. What does not fit there all together is better written around it (measured:
// docs/performance.md).
std::size_t streaming_bytes(int ranks_here) {
  constexpr std::size_t kUsualKib = 32 << 10;
  // The kernel's own figure: sysconf() reports the caches of all sockets of the host in some
  // virtual machines.
  std::size_t kib = 0;
  std::ifstream("/sys/devices/system/cpu/cpu0/cache/index3/size") >> kib;
  return ((kib != 0 ? kib : kUsualKib) << 10) / 2 / static_cast<std::size_t>(ranks_here);
}

ForeignForm foreign_form(ForeignPath path) {
  // Measured (docs/performance.md): a copy into a ring that stays in cache, read there by all
  // peers, beats one process_vm_readv per peer on small pages; so `automatic` stages.
  return path == ForeignPath::cma ? ForeignForm::process : ForeignForm::staged;
}

}  // namespace

void Invocation::clear() {
  plan = nullptr;
  call = {};
  in.clear();
  out.clear();
  receive_weights.clear();
  send_weights.clear();
  given.clear();
  given_input.clear();
}

Context::Core::Core(const Config& config, Roster roster, std::uint16_t number, Hardware hardware)
    : config_(config),
      roster_(std::move(roster)),
      voice_{config.log, roster_.hub().store().rank()},
      number_(number),
      hardware_(std::move(hardware)),
      graph_(*exponential_graph(roster_.size())),
      trace_(config.trace.empty() ? 0 : kTraceRecords),
      membership_({.on_change =
                       [this] {
                         if (interface_) interface_->wake();
                       },
                   .has_left = [this](Rank rank) { return has_left(rank); }}) {
  ring_ = &trace_.add_lane("lane");
}

Result<std::shared_ptr<Context::Core>> Context::Core::open(const Config& config,
                                                           std::shared_ptr<Store> store) {
  WEFT_RETURN_IF_ERROR(config.check());
  const std::uint16_t number = store->next_context();
  Roster roster(Hub::of(store));
  store.reset();
  // Decided for the job as a whole: contexts that are split off keep to it.
  Config decided = config;
  decided.size = roster.size();
  decided.transports = chosen_transports(decided);
  return open_at(decided, std::move(roster), number, {});
}

Result<std::shared_ptr<Context::Core>> Context::Core::open_at(const Config& config, Roster roster,
                                                              std::uint16_t number,
                                                              Hardware hardware) {
  std::shared_ptr<Core> core(new Core(config, std::move(roster), number, std::move(hardware)));
  const LogScope scope(core->voice_);
  if (Status joined = core->join(); !joined.ok()) {
    core->roster_.hub().store().set_failure(joined);
    return joined;
  }
  return core;
}

ExecutionOptions Context::Core::execution_options(std::uint32_t channel) {
  ExecutionOptions options;
  options.channel = channel;
  options.payload_bytes = static_cast<std::size_t>(config_.eager_bytes);
  options.foreign = foreign_form(config_.foreign);
  options.check_graph = config_.topo_check;
  options.streaming_bytes =
      streaming_bytes(config_.local_size > 0 ? config_.local_size : config_.size);
  options.slots = static_cast<std::uint32_t>(config_.slots);
  options.piece_bytes = interface_->piece_bytes() / 64 * 64;
  options.job = job_;
  options.context = number_;
  options.scratch = &scratch_;
  options.trace = ring_;
  return options;
}

Status Context::Core::join() {
  config_.rank = roster_.rank();
  config_.size = roster_.size();
  WEFT_RETURN_IF_ERROR(configure_heap(
      {config_.shm_dir, static_cast<std::size_t>(config_.heap_mib) << 20,
       config_.huge_pages == HugePageUse::off ? HugePages::off : HugePages::automatic}));
  const int here = config_.local_size > 0 ? config_.local_size : config_.size;
  const int cores = config_.local_cores > 0 ? config_.local_cores : usable_cores();
  policy_ = wait_policy(here, cores, config_.spin_ns,
                        config_.yield_us < 0 ? -1 : config_.yield_us * 1000);
  InterfaceOptions options = interface_options(config_);
  job_ = options.job;
  options.context = number_;
  MachineRecord machine = this_machine(config_.host);
  options.machine = machine.identity;
  WEFT_ASSIGN(Ways ways, open_ways(config_, options, hardware_,
                                   [this](Rank rank) { return address_of(rank); }));
  interface_ = std::move(ways.interface);
  place_ = std::move(ways.place);
  if (!ways.memory_place.ok()) place_.reason += "; memory is not: " + ways.memory_place.to_string();
  rails_ = std::move(ways.rails);
  rail_reasons_ = std::move(ways.reasons);
  for (std::uint32_t channel = 1; channel + 1 < options.channels; ++channel) {
    slots_.push_back(std::make_unique<Slot>(execution_options(channel)));
  }
  running_.reserve(slots_.size());
  roster_.add(&membership_);
  WEFT_RETURN_IF_ERROR(tell_machine(std::move(machine)));
  return tell_address();
}

Context::Core::~Core() {
  close();
}

void Context::Core::close() {
  if (!interface_ || closed_) return;
  closed_ = true;
  const LogScope scope(voice_);
  stop_lane_thread();
  take_lane();
  fail_all(Status(Code::closed, "the context was closed", config_.rank));
  advance_all();
  interface_->close();
  token_.release();
  stop_completion_thread();
  roster_.hub().remove(&membership_);
  if (trace_.on()) {
    if (Status status = trace_.write_chrome(config_.trace, config_.rank); !status.ok()) {
      log(LogLevel::error, status.to_string());
    }
  }
}

Status Context::Core::set_graph(Graph graph, bool weighted) {
  if (graph.size() != config_.size) {
    return Status(Code::invalid_argument, fmt::format("set_graph: {} has {} ranks, the job has {}",
                                                      graph.name(), graph.size(), config_.size));
  }
  take_lane();
  wait_for_all();  // they hold the old graph's peers and weights
  graph_ = std::move(graph);
  weighted_ = weighted;
  graph_connected_ = false;
  for (auto& slot : slots_) slot->asked.is_whole = false;
  token_.release();
  return {};
}

Context::Usage Context::Core::usage() {
  take_lane();
  Usage usage;
  usage.connected_peers = contacts_.size();
  usage.endpoint_bytes = interface_->endpoint_bytes();
  usage.plans_cached = plans_.size();
  usage.operations = completed_;
  usage.allocations = allocations_ + scratch_.allocations();
  usage.scratch_bytes = scratch_.bytes();
  for (const auto& [rank, contact] : contacts_) {
    if (!contact->endpoint->shares_memory()) usage.network_bytes += contact->sent_bytes;
  }
  for (const auto& slot : slots_) {
    usage.scratch_bytes += slot->execution.scratch_bytes();
    usage.allocations += slot->execution.allocations();
  }
  for (const auto& slot : partial_slots_) {
    usage.scratch_bytes += slot->execution.scratch_bytes();
    usage.allocations += slot->execution.allocations();
  }
  token_.release();
  return usage;
}

std::string Context::Core::explain() {
  take_lane();
  std::string text;
  if (last_slot_ == nullptr) {
    text = "no operation has run yet\n";
  } else {
    const Plan& plan = last_slot_->invocation.plan->plan;
    text = fmt::format("{}: {} ({})\n", plan.operation, plan.algorithm, plan.reason);
    text += fmt::format("  {} in-edges, {} out-edges over {}\n", plan.in_degree, plan.out_degree,
                        interface_->name());
    if (!place_.reason.empty()) text += fmt::format("  lane: {}\n", place_.reason);
    if (machines_) {
      text += fmt::format("  {}\n", machines_->describe());
      for (const std::string& rail : used_rails()) text += fmt::format("  {}\n", rail);
    } else if (choose_again_ns_ != 0) {
      text += fmt::format("  uses all rails until all ranks have joined: {} of {} have\n",
                          machine_records_.size(), config_.size);
    }
    text += last_slot_->execution.describe();
    text += describe_paths(last_slot_->execution.call());
  }
  token_.release();
  return text;
}

}  // namespace weft
