// The plan cache: a shape is planned once, then looked up.
#include <fmt/core.h>

#include <algorithm>

#include "engine/context/core.h"

namespace weft {
namespace {

// More shapes than this at once are not a training loop's; the cache then starts anew.
constexpr std::size_t kMostPlans = 1024;

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

Result<std::shared_ptr<const CachedPlan>> Context::Core::plan(const PlanKey& key,
                                                              const std::function<Planned()>& make) {
  if (last_plan_ != nullptr && last_key_ == key) return last_plan_;
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    Planned planned = make();
    auto cached = std::make_shared<CachedPlan>();
    cached->plan = std::move(planned.plan);
    // Neighbor operations name their peers at each call; the others' plans do it here.
    if (key.collective != Collective::neighbor_allreduce && key.collective != Collective::neighbor_allgather) {
      WEFT_RETURN_IF_ERROR(contacts(planned.view.in, cached->in));
      WEFT_RETURN_IF_ERROR(contacts(planned.view.out, cached->out));
    }
    cached->trace_name =
        trace_.operation_name(fmt::format("{} {}", cached->plan.operation, cached->plan.algorithm));
    if (plans_.size() >= kMostPlans) plans_.clear();
    found = plans_.emplace(key, std::move(cached)).first;
    ++allocations_;
  }
  last_key_ = key;
  last_plan_ = found->second;
  return last_plan_;
}

// The plan of a neighbor operation depends on the degrees and on our place among the in-neighbors (sums run in rank order).
Status Context::Core::plan_neighbors(Invocation& invocation, Collective collective, bool in_place) {
  const auto before = std::ranges::count_if(
      invocation.in, [this](const Contact* contact) { return contact->rank < config_.rank; });
  PlanKey key;
  key.collective = collective;
  key.in_place = in_place;
  key.in = static_cast<std::uint32_t>(invocation.in.size());
  key.out = static_cast<std::uint32_t>(invocation.out.size());
  key.position = static_cast<std::uint32_t>(before);
  WEFT_ASSIGN(invocation.plan, plan(key, [&]() -> Planned {
    View view{config_.rank, config_.size, {}, {}};
    for (const Contact* contact : invocation.in) view.in.push_back(contact->rank);
    for (const Contact* contact : invocation.out) view.out.push_back(contact->rank);
    const Shape shape{in_place};
    Plan made = collective == Collective::neighbor_allreduce ? plan_neighbor_allreduce(view, shape)
                                                             : plan_neighbor_allgather(view, shape);
    return {std::move(view), std::move(made)};
  }));
  return {};
}

Status Context::Core::plan_everybody(Invocation& invocation, const PlanKey& key,
                                     const std::function<Planned()>& make) {
  WEFT_ASSIGN(invocation.plan, plan(key, make));
  invocation.in = invocation.plan->in;
  invocation.out = invocation.plan->out;
  return {};
}

}  // namespace weft
