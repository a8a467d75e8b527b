// allreduce and ring: every rank has the mean of all gradients, and takes the same step.
#include "engine/strategies/table.h"

namespace weft {
namespace {

class All : public StrategyMethod {
 public:
  All(StrategySetup setup, AllreduceAlgorithm algorithm)
      : StrategyMethod(std::move(setup)), algorithm_(algorithm) {}

  Status open() override {
    WEFT_ASSIGN(mean_, vector());
    return {};
  }
  Status step(const void* gradient) override {
    WEFT_RETURN_IF_ERROR(average_all(gradient, mean_.data(), algorithm_));
    descend(model(), mean_.data());
    return {};
  }

 private:
  const AllreduceAlgorithm algorithm_;
  Memory mean_;
};

}  // namespace

std::unique_ptr<StrategyMethod> make_allreduce(StrategySetup setup) {
  return std::make_unique<All>(std::move(setup), AllreduceAlgorithm::automatic);
}
std::unique_ptr<StrategyMethod> make_ring(StrategySetup setup) {
  return std::make_unique<All>(std::move(setup), AllreduceAlgorithm::ring);
}

}  // namespace weft
