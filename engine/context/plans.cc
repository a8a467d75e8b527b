// The plan cache: a shape is planned once, then looked up.
#include <fmt/core.h>

#include "engine/context/core.h"

namespace weft {
namespace {

// More shapes than this at once are not a training loop's; the cache then starts anew.
constexpr std::size_t kMostPlans = 1024;

bool names_its_peers(Collective collective) {
  return collective != Collective::neighbor_allreduce &&
         collective != Collective::neighbor_allgather && !is_of_some_ranks(collective);
}

}  // namespace

std::size_t Context::Core::PlanKeyHash::operator()(const PlanKey& key) const {
  std::uint64_t hash = 0;
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  };
  mix(static_cast<std::uint64_t>(key.collective) << 16 | std::uint64_t{key.algorithm} << 8 |
      (key.in_place ? 1U : 0U));
  mix(std::uint64_t{key.in} << 32 | key.out);
  mix(std::uint64_t{key.position} << 32 | static_cast<std::uint32_t>(key.root));
  mix(key.bytes);
  return hash;
}

// Peers that the plan itself names (operations over all ranks) are connected here; neighbor
// operations and those of some ranks name theirs at each call.
Result<const CachedPlan*> Context::Core::new_plan(const PlanKey& key, Planned planned) {
  auto cached = std::make_unique<CachedPlan>();
  cached->plan = std::move(planned.plan);
  cached->view = planned.view;
  if (names_its_peers(key.collective)) {
    WEFT_RETURN_IF_ERROR(contacts(planned.view.in, cached->in));
    WEFT_RETURN_IF_ERROR(contacts(planned.view.out, cached->out));
  }
  cached->trace_name =
      trace_.operation_name(fmt::format("{} {}", cached->plan.operation, cached->plan.algorithm));
  // Plans in use cannot go; they are few, and the cache is emptied when nothing runs.
  if (plans_.size() >= kMostPlans && running_.empty() && queue_.empty() && partial_queue_.empty()) {
    plans_.clear();
    machine_sets_.clear();
    ++plans_dropped_;
    last_slot_ = nullptr;  // its operation's plan is gone
  }
  ++allocations_;
  return plans_.insert_or_assign(key, std::move(cached)).first->second.get();
}

}  // namespace weft
