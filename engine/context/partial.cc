// partial: what the groups of partial all-reduce need of a context (engine/partial/host.h).
#include "engine/partial/partial.h"

#include "engine/context/core.h"
#include "engine/context/healing.h"
#include "engine/context/on_core.h"

namespace weft {

class Context::Core::GroupHost final : public OnCore<weft::GroupHost> {
 public:
  // `parent`: the core of the caller's context, in whose numbers ranks are given to among().
  GroupHost(std::shared_ptr<Core> core, std::shared_ptr<Core> parent, std::string number)
      : OnCore(std::move(core)), parent_(std::move(parent)), number_(std::move(number)) {}

  Status run(const Request& request) override { return core_->run(request); }
  Result<std::vector<int>> machines() override {
    WEFT_ASSIGN(const Placement placement, core_->placement());
    std::vector<int> machines;
    for (Rank rank = 0; rank < size(); ++rank)
      machines.push_back(placement.layout.machine_of(rank));
    return machines;
  }
  bool has_died(Rank rank) override { return core_->membership_.died(rank); }
  Status await(Rank rank, std::int64_t patience_ms) override {
    core_->rank_map_.events().tell_events();
    WEFT_RETURN_IF_ERROR(core_->membership_.failure());
    return core_->peers_.addresses().address_of(rank, patience_ms).status();
  }
  Result<std::unique_ptr<weft::GroupHost>> among(const std::vector<Rank>& ranks) override {
    WEFT_ASSIGN(std::shared_ptr<Core> core, parent_->among(ranks, "groups", number_, Extra::mail));
    return std::unique_ptr<weft::GroupHost>(new GroupHost(std::move(core), parent_, number_));
  }

 private:
  const std::shared_ptr<Core> parent_;
  const std::string number_;
};

Result<std::unique_ptr<weft::GroupHost>> Context::Core::group_host(Context& context) {
  if (context.healing_) WEFT_RETURN_IF_ERROR(context.healing_->check_whole("a group host"));
  const std::shared_ptr<Core> parent = context.core();
  std::string number = std::to_string(parent->splits_++);
  WEFT_ASSIGN(std::shared_ptr<Core> core,
              parent->among(ranks_of_size(parent->config_.size), "groups", number, Extra::mail));
  return std::unique_ptr<weft::GroupHost>(
      new Core::GroupHost(std::move(core), parent, std::move(number)));
}

Result<std::unique_ptr<GroupHost>> open_group_host(Context& context) {
  return Context::Core::group_host(context);
}

}  // namespace weft
