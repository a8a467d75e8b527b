// plan_cache: hashing, adding, emptying.
#include "engine/context/plan_cache.h"

#include <fmt/core.h>

#include <utility>

namespace weft {
namespace {

// The most plans that are kept. A full cache is emptied. No training loop has so many shapes.
constexpr std::size_t kMostPlans = 1024;

// Whether the plans of the collective determine its peers. Neighbor operations and subset
// operations get their peers at each call instead.
bool names_its_peers(Collective collective) {
  return !has<kOnGraph>(collective) && !has<kOfSomeRanks>(collective);
}

}  // namespace

std::size_t PlanCache::Hash::operator()(const PlanKey& key) const {
  std::uint64_t hash = 0;
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  };
  mix(static_cast<std::uint64_t>(key.collective) << 16 | std::uint64_t{key.algorithm} << 8 |
      (key.in_place ? 1U : 0U) | (key.has_mean ? 2U : 0U) | (key.bits == Bits::fixed ? 4U : 0U) |
      (key.is_narrow ? 8U : 0U));
  mix(std::uint64_t{key.in} << 32 | key.out);
  mix(std::uint64_t{key.position} << 32 | static_cast<std::uint32_t>(key.root));
  mix(key.bytes);
  mix(key.left);
  return hash;
}

Result<const CachedPlan*> PlanCache::add(const PlanKey& key, Planned planned) {
  auto cached = std::make_unique<CachedPlan>();
  cached->plan = std::move(planned.plan);
  cached->view = std::move(planned.view);
  if (names_its_peers(key.collective)) {
    WEFT_RETURN_IF_ERROR(peers_.connections(cached->view.in, cached->in));
    WEFT_RETURN_IF_ERROR(peers_.connections(cached->view.out, cached->out));
  }
  cached->trace_name =
      trace_.operation_name(fmt::format("{} {}", cached->plan.operation, cached->plan.algorithm));
  if (plans_.size() >= kMostPlans && lane_.is_idle() && others_idle_()) {
    lane_.forget_bound();
    plans_.clear();
  }
  ++allocations_;
  return plans_.insert_or_assign(key, std::move(cached)).first->second.get();
}

}  // namespace weft
