// machine_table: reading the records.
#include "engine/job/machine_table.h"

#include <fmt/core.h>

#include <utility>

namespace weft {
namespace {

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

MachineTable::MachineTable(const Config& config, const RankMap& rank_map, std::uint16_t context,
                           std::function<void(const Status&)> on_read)
    : config_(config), rank_map_(rank_map), context_(context), on_read_(std::move(on_read)) {}

std::string MachineTable::key_of(Rank rank) const {
  return fmt::format("context/{}/machine/{}", context_, rank);
}

Status MachineTable::tell(MachineRecord own, std::vector<RailRecord> rails) const {
  own.policy = rail_policy_of(config_.rails);
  own.rails = std::move(rails);
  return rank_map_.put(key_of(config_.rank), own.to_text());
}

Result<const Machines*> MachineTable::read_by(Deadline deadline) {
  if (machines_) return &*machines_;
  const std::size_t known = records_.size();
  while (std::ssize(records_) < config_.size) {
    const auto rank = static_cast<Rank>(records_.size());
    // A get succeeds after the deadline, too, if the store has the value. Reading all values that
    // the store has would take too long, so the reading stops here.
    if (deadline.passed() && records_.size() != known)
      return Status(Code::timed_out, "the machines of all ranks are not known yet");
    WEFT_ASSIGN(const std::string text, rank_map_.get_from(rank, key_of(rank), deadline));
    Result<MachineRecord> record = machine_record(text);
    if (!record.ok()) {
      return Status(Code::mismatch,
                    fmt::format("rank {} says of its machine: {}", rank, record.status().text()),
                    rank);
    }
    records_.push_back(std::move(*record));
  }
  if (Status policies = check_policies(records_); !policies.ok()) {
    on_read_(policies);
    return policies;
  }
  machines_ = machines_of(records_);
  hierarchical_ = check_hierarchical_neighbor_allreduce(machines_->layout);
  on_read_({});
  return &*machines_;
}

Status MachineTable::set_left(std::vector<double> left) {
  WEFT_RETURN_IF_ERROR(get().status());
  left_number_ = lefts_.emplace(left, static_cast<std::uint32_t>(lefts_.size())).first->second;
  machines_->layout.left = std::move(left);
  return {};
}

Result<const Layout*> MachineTable::layout_for(AllreduceAlgorithm algorithm) {
  static const Layout kTogether;
  const bool is_wanted = needs_layout(algorithm) || config_.transports.networks();
  if (!is_wanted || config_.size == 1) return &kTogether;
  WEFT_ASSIGN(const Machines* all, get());
  return all->count() == 1 ? &kTogether : &all->layout;
}

}  // namespace weft
