// sgp: x is a part of a sum that travels beside the computation; the model is z = x / w.
#include "engine/algorithms/algorithms.h"
#include "engine/strategies/table.h"

namespace weft {
namespace {

class StochasticGradientPush : public StrategyMethod {
 public:
  using StrategyMethod::StrategyMethod;

  Status open() override {
    WEFT_ASSIGN(x_, shared_vector());
    copy(x_->data(), model());
    WEFT_ASSIGN(PushSum made, PushSum::create(context(), *schedule(), output(x_->data()),
                                              {.name = options().name, .owner = x_}));
    push_sum_.emplace(std::move(made));
    return {};
  }
  Status begin() override {
    count_sent(schedule()->local_view(counts().steps, context().rank()).out.size());
    return push_sum_->begin_step();
  }
  Status step(const void* gradient) override {
    WEFT_RETURN_IF_ERROR(push_sum_->end_step());
    descend(x_->data(), gradient);
    return push_sum_->debias(output(model()));
  }
  Status end() override {
    WEFT_RETURN_IF_ERROR(push_sum_->settle());
    WEFT_RETURN_IF_ERROR(push_sum_->debias(output(model())));
    return push_sum_->end();
  }

 private:
  std::shared_ptr<Memory> x_;
  std::optional<PushSum> push_sum_;
};

}  // namespace

std::unique_ptr<StrategyMethod> make_sgp(StrategySetup setup) {
  if (!setup.options.peers) setup.options.peers = 1;
  return std::make_unique<StochasticGradientPush>(std::move(setup));
}

}  // namespace weft
