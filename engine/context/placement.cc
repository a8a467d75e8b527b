// Who is on which machine, and what follows from that alone.
//
// Every rank says at joining on which machine it is: one value in the store. The others read that
// when something first needs it, a get for each rank, once in the life of a context; so jobs that
// never ask pay for the one put. No rank waits for another here that has joined.
#include <fmt/core.h>

#include "engine/context/operands.h"

namespace weft {
namespace {

std::string machine_key(std::uint16_t context, Rank rank) {
  return fmt::format("context/{}/machine/{}", context, rank);
}

// Whether an algorithm is made for machines or rails.
bool needs_layout(AllreduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllreduceAlgorithm::bcube:
    case AllreduceAlgorithm::torus:
    case AllreduceAlgorithm::multi_ring:
    case AllreduceAlgorithm::hierarchical:
      return true;
    default:
      return false;
  }
}

RailPolicy rail_policy_of(RailChoice choice) {
  switch (choice) {
    case RailChoice::automatic:
      return RailPolicy::automatic;
    case RailChoice::near:
      return RailPolicy::near;
    case RailChoice::all:
      return RailPolicy::all;
  }
  return RailPolicy::all;
}

}  // namespace

Status Context::Core::tell_machine(MachineRecord own) {
  own.policy = rail_policy_of(config_.rails);
  own.rails = rails_;
  return roster_.put(machine_key(number_, config_.rank), own.to_text());
}

Result<const Machines*> Context::Core::machines_told_by(Deadline deadline) {
  if (machines_) return &*machines_;
  const std::size_t known = machine_records_.size();
  while (std::ssize(machine_records_) < config_.size) {
    const auto rank = static_cast<Rank>(machine_records_.size());
    // A store gives what it has after the deadline, too: all of it would take too long then.
    if (deadline.passed() && machine_records_.size() != known)
      return Status(Code::timed_out, "the machines of all ranks are not known yet");
    WEFT_ASSIGN(const std::string text,
                roster_.get_from(rank, machine_key(number_, rank), deadline));
    Result<MachineRecord> record = machine_record(text);
    if (!record.ok()) {
      return Status(Code::mismatch,
                    fmt::format("rank {} says of its machine: {}", rank, record.status().text()),
                    rank);
    }
    machine_records_.push_back(std::move(*record));
  }
  if (const Status policies = check_policies(machine_records_); !policies.ok()) {
    fail_all(policies);  // whoever asked, and whatever was asked for
    return policies;
  }
  machines_ = machines_of(machine_records_);
  hierarchical_ = check_hierarchical_neighbor_allreduce(machines_->layout);
  choose_rails();
  return &*machines_;
}

Result<Context::Placement> Context::Core::placement() {
  take_lane();
  const Result<const Machines*> known = machines();
  token_.release();
  if (!known.ok()) return known.status();
  const Machines& all = **known;  // as long as the core: never made anew
  Placement placement;
  placement.local_rank = all.place_of(config_.rank);
  placement.local_size = static_cast<int>(all.ranks_beside(config_.rank).size());
  placement.machine_rank = all.layout.machine_of(config_.rank);
  placement.machine_size = all.count();
  placement.is_homogeneous = all.is_homogeneous();
  placement.layout = all.layout;
  return placement;
}

// Without networks all ranks are on one machine, and nobody need be asked; the same is found where
// they are although networks are there, so all ranks plan alike.
Result<const Layout*> Context::Core::layout_for(AllreduceAlgorithm algorithm) {
  static const Layout kTogether;
  const bool is_wanted = needs_layout(algorithm) || config_.transports.networks();
  if (!is_wanted || config_.size == 1) return &kTogether;
  WEFT_ASSIGN(const Machines* all, machines());
  return all->count() == 1 ? &kTogether : &all->layout;
}

Status Context::Core::set_machine_graph(Graph graph, bool weighted) {
  take_lane();
  const Result<const Machines*> all = machines();
  Status status = all.status();
  if (status.ok() && graph.size() != (*all)->count()) {
    status = invalid(fmt::format("set_machine_graph: {} has {} machines, the job has {}",
                                 graph.name(), graph.size(), (*all)->describe()));
  }
  if (status.ok()) {
    machine_graph_ = std::move(graph);
    machine_weighted_ = weighted;
  }
  token_.release();
  return status;
}

std::optional<Graph> Context::Core::machine_graph() {
  take_lane();
  std::optional<Graph> graph = machine_graph_;
  token_.release();
  return graph;
}

// An allreduce among the ranks of each machine, which know nothing of other machines'.
Status Context::Core::invoke_local_allreduce(Invocation& invocation, const Input& x,
                                             const Output& y, ReduceOp op) {
  WEFT_RETURN_IF_ERROR(check_same_count("local_allreduce", x, y));
  WEFT_ASSIGN(const Machines* all, machines());
  const std::vector<Rank>& beside = all->ranks_beside(config_.rank);
  const auto size = static_cast<int>(beside.size());
  bind(invocation.call, Collective::local_allreduce, x, y);
  WEFT_RETURN_IF_ERROR(bind_reduction("local_allreduce", invocation.call, x.type, op, size));
  PlanKey key;
  key.collective = Collective::local_allreduce;
  key.in_place = is_in_place(x, y);
  key.bytes = x.count * size_of(x.type);
  return plan_everybody(invocation, key, [&] {
    Planned planned =
        plan_allreduce(all->place_of(config_.rank), size, key.bytes, Shape{key.in_place});
    planned.plan.operation = "local_allreduce";
    for (Rank& place : planned.view.in) place = beside[static_cast<std::size_t>(place)];
    for (Rank& place : planned.view.out) place = beside[static_cast<std::size_t>(place)];
    return planned;
  });
}

}  // namespace weft
