// prague, prague:random, prague:static (Prague): the mean of a group, which a generator makes or each rank
// computes alone.
#include "engine/algorithms/algorithms.h"
#include "engine/strategies/table.h"

namespace weft {
namespace {

class Prague : public StrategyMethod {
 public:
  Prague(StrategySetup setup, std::string_view law) : StrategyMethod(std::move(setup)), law_(law) {}

  Status open() override {
    WEFT_ASSIGN(PartialAllreduce made,
                PartialAllreduce::create(context(), output(model()),
                                         {.name = options().name,
                                          .law = std::string(law_),
                                          .section = options().section.value_or(1),
                                          .seed = options().seed.value_or(1)}));
    partial_.emplace(std::move(made));
    return {};
  }
  Status begin() override { return partial_->begin(); }
  Status step(const void* gradient) override {
    descend(model(), gradient);
    const std::uint64_t before = partial_->usage().groups;
    WEFT_ASSIGN(const std::vector<Rank> group, partial_->average());
    // Random groups, of which there may be several, are of one size.
    for (std::uint64_t each = before; each < partial_->usage().groups; ++each)
      count_reduced(group.size());
    return {};
  }
  Status end() override { return partial_->end(); }

 private:
  const std::string_view law_;
  std::optional<PartialAllreduce> partial_;
};

}  // namespace

std::unique_ptr<StrategyMethod> make_prague(StrategySetup setup) {
  return std::make_unique<Prague>(std::move(setup), "smart");
}
std::unique_ptr<StrategyMethod> make_prague_random(StrategySetup setup) {
  return std::make_unique<Prague>(std::move(setup), "random");
}
std::unique_ptr<StrategyMethod> make_prague_static(StrategySetup setup) {
  return std::make_unique<Prague>(std::move(setup), "static");
}

}  // namespace weft
