// prague:static (Prague, section 4.2): groups that each rank computes alone, without a generator.
#include "engine/strategies/table.h"
#include "scheduler/partial/partial.h"

namespace weft {
namespace {

class PragueStatic : public StrategyMethod {
 public:
  using StrategyMethod::StrategyMethod;

  // The schedule counts ranks machine by machine; `ranks_` has them in that order.
  Status open() override {
    WEFT_ASSIGN(const Context::Placement placement, context().placement());
    if (!placement.is_homogeneous) {
      return Status(Code::unavailable,
                    "strategy \"prague:static\": it needs equally many ranks on all machines");
    }
    shape_ = {placement.machine_size, placement.local_size};
    ranks_.resize(static_cast<std::size_t>(context().size()));
    std::vector<int> found(static_cast<std::size_t>(shape_.machines));
    for (Rank rank = 0; rank < context().size(); ++rank) {
      const int machine = placement.layout.machine_of(rank);
      const int place = machine * shape_.local_size + found[static_cast<std::size_t>(machine)]++;
      ranks_[static_cast<std::size_t>(place)] = rank;
      if (rank == context().rank()) place_ = place;
    }
    return {};
  }
  Status step(const void* gradient) override {
    descend(model(), gradient);
    const auto section = static_cast<std::uint64_t>(options().section.value_or(1));
    if ((counts().steps + 1) % section != 0) return {};
    WEFT_ASSIGN(std::vector<Rank> group, static_group(counts().steps / section, shape_, place_));
    for (Rank& each : group) each = ranks_[static_cast<std::size_t>(each)];
    if (group.size() < 2) return {};
    count_reduced(group.size());
    return context().group_average(input(model()), output(model()), group);
  }

 private:
  MachineShape shape_;
  std::vector<Rank> ranks_;
  int place_ = 0;  // of this rank in ranks_
};

}  // namespace

std::unique_ptr<StrategyMethod> make_prague_static(StrategySetup setup) {
  return std::make_unique<PragueStatic>(std::move(setup));
}

}  // namespace weft
