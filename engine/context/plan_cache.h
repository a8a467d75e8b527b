// plan_cache: the plans by shape. Each shape is planned once. Peers and weights are bound to a plan
// at each call, so a graph that changes at every step uses few plans. Internal to the module.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/context/peers.h"
#include "engine/execute/execute.h"
#include "engine/lane/lane.h"
#include "engine/trace/trace.h"
#include "scheduler/plan/plan.h"

namespace weft {

// A plan with its peers.
struct CachedPlan {
  Plan plan;
  View view;  // the peers as planned; of a group_average: indices in the group
  // The connections of the peers. Empty for operations that get their peers at each call.
  std::vector<PeerConnection*> in, out;
  std::uint16_t trace_name = 0;
};

// Everything that decides a plan. An operation leaves a member at its default if its plans do not
// depend on it.
struct PlanKey {
  Collective collective{};
  std::uint8_t algorithm = 0;
  Bits bits = Bits::automatic;
  bool in_place = false;
  bool is_narrow = false;  // Shape::is_narrow
  bool has_mean = false;   // MeanInput::of_machine
  std::uint32_t in = 0, out = 0, position = 0;
  Rank root = kNoRank;
  std::uint32_t left = 0;  // MachineTable::left_number
  std::uint64_t bytes = 0;
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

// Belongs to the holder of the lane's token.
class PlanCache {
 public:
  // `others_idle`: whether no other lane runs a part of an operation.
  PlanCache(Peers& peers, Trace& trace, Lane& lane, std::function<bool()> others_idle)
      : peers_(peers), trace_(trace), lane_(lane), others_idle_(std::move(others_idle)) {}

  // The plan of that shape. If the cache has none, `make` makes it and returns a Planned. The plan
  // is valid until the cache is emptied, which happens only while no operation runs.
  template <typename Make>
  [[nodiscard]] Result<const CachedPlan*> get(const PlanKey& key, Make&& make) {
    if (last_ != nullptr && last_key_ == key) return last_;
    const auto found = plans_.find(key);
    if (found != plans_.end()) {
      last_ = found->second.get();
    } else {
      last_ = nullptr;
      WEFT_ASSIGN(last_, add(key, make()));
    }
    last_key_ = key;
    return last_;
  }

  [[nodiscard]] std::size_t size() const { return plans_.size(); }
  [[nodiscard]] std::uint64_t allocations() const { return allocations_; }

 private:
  struct Hash {
    std::size_t operator()(const PlanKey& key) const;
  };
  [[nodiscard]] Result<const CachedPlan*> add(const PlanKey& key, Planned planned);

  Peers& peers_;
  Trace& trace_;
  Lane& lane_;
  const std::function<bool()> others_idle_;
  std::unordered_map<PlanKey, std::unique_ptr<const CachedPlan>, Hash> plans_;
  PlanKey last_key_;
  const CachedPlan* last_ = nullptr;
  std::uint64_t allocations_ = 0;
};

}  // namespace weft
