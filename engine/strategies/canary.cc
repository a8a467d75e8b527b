// canary and its settings: gradients in pieces, and the means of those that have come. The colayers are
// equal parts of the model, as the gradient comes whole.
#include <algorithm>

#include "engine/algorithms/algorithms.h"
#include "engine/strategies/table.h"
#include "scheduler/plan/plan.h"

namespace weft {
namespace {

constexpr std::size_t kColayers = 10;  // the paper's

class Canary : public StrategyMethod {
 public:
  Canary(StrategySetup setup, ExchangeRule rule) : StrategyMethod(std::move(setup)), rule_(rule) {}

  Status open() override {
    const std::size_t count = setup().model.count;
    const std::size_t colayers = options().colayers ? static_cast<std::size_t>(*options().colayers)
                                                    : std::min(kColayers, count);
    const auto parts = static_cast<std::uint32_t>(colayers);
    for (std::uint32_t part = 0; part < parts; ++part)
      counts_.push_back(block_range(count, 1, parts, part).count);
    WEFT_ASSIGN(mean_, vector());
    WEFT_ASSIGN(GradientExchange made,
                GradientExchange::create(context(), output(model()), counts_,
                                         {.name = options().name,
                                          .rule = rule_,
                                          .staleness = options().staleness.value_or(18),
                                          .proportion = options().proportion,
                                          .topology = topology(),
                                          .compression = options().compression}));
    exchange_.emplace(std::move(made));
    return {};
  }
  Status begin() override { return exchange_->begin(); }
  Status step(const void* gradient) override {
    const auto* part = static_cast<const std::byte*>(gradient);
    for (std::size_t colayer = 0; colayer < counts_.size(); ++colayer) {
      WEFT_RETURN_IF_ERROR(
          exchange_->push(static_cast<int>(colayer), {part, counts_[colayer], type()}));
      part += counts_[colayer] * size_of(type());
    }
    return take();
  }
  // What is under way is taken by iterations with empty pieces. In a mesh the owners first take what is under way to
  // them; at the end of their next iteration it is with all.
  Status end() override {
    if (rule_ != ExchangeRule::bulk) {
      if (topology() == ExchangeTopology::mesh) WEFT_RETURN_IF_ERROR(empty_iterations(2));
      WEFT_RETURN_IF_ERROR(empty_iterations(1));
    }
    return exchange_->end();
  }

 private:
  [[nodiscard]] ExchangeTopology topology() const {
    return options().topology.value_or(ExchangeTopology::all_to_all);
  }
  Status empty_iterations(int count) {
    WEFT_RETURN_IF_ERROR(context().barrier());
    for (int each = 0; each < count; ++each) {
      WEFT_RETURN_IF_ERROR(exchange_->begin());
      WEFT_RETURN_IF_ERROR(take());
    }
    return {};
  }
  Status take() {
    WEFT_ASSIGN(const EndedIteration ended, exchange_->end_iteration(output(mean_.data())));
    counts().bytes = exchange_->counts().bytes;
    counts().dropped = exchange_->counts().dropped;
    // Without a gradient the momentum moves nothing.
    if (ended.is_dropped || std::ranges::max(ended.contributors) == 0) return {};
    return exchange_->update([&] { descend(model(), mean_.data()); });
  }

  const ExchangeRule rule_;
  std::vector<std::size_t> counts_;  // elements of each colayer
  Memory mean_;
  std::optional<GradientExchange> exchange_;
};

}  // namespace

std::unique_ptr<StrategyMethod> make_canary(StrategySetup setup) {
  return std::make_unique<Canary>(std::move(setup), ExchangeRule::canary);
}
std::unique_ptr<StrategyMethod> make_canary_bulk(StrategySetup setup) {
  return std::make_unique<Canary>(std::move(setup), ExchangeRule::bulk);
}
std::unique_ptr<StrategyMethod> make_canary_bounded(StrategySetup setup) {
  return std::make_unique<Canary>(std::move(setup), ExchangeRule::bounded);
}
std::unique_ptr<StrategyMethod> make_canary_asynchronous(StrategySetup setup) {
  return std::make_unique<Canary>(std::move(setup), ExchangeRule::asynchronous);
}

}  // namespace weft
