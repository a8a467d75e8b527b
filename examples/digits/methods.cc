// The steps of a method are those of its strategy. Exchanges without gradients follow, so that the models agree.
#include "examples/digits/methods.h"

#include <algorithm>

#include "engine/strategies/strategies.h"

namespace digits {
namespace {

constexpr int kLastExchanges = 20;

}  // namespace

void descend(const Dataset& data, Batches& batches, std::span<float> model) {
  std::vector<float> slope(kParameters);
  gradient(model, data, batches.next(), slope);
  for (std::size_t i = 0; i < kParameters; ++i) model[i] -= kStepLength * slope[i];
}

weft::Result<Tensor> learn_by(const Method& method, weft::Context& context, const Dataset& data,
                              Batches batches) {
  WEFT_ASSIGN(Tensor model, examples::make_tensor<float>(kParameters));
  std::vector<float> slope(kParameters);
  const weft::Input step = weft::in(slope.data(), kParameters);
  WEFT_ASSIGN(weft::Strategy strategy,
              weft::Strategy::create(context, method.strategy, weft::out(model.get(), kParameters),
                                     {.rate = kStepLength}));
  for (std::size_t each = 0; each < kSteps; ++each) {
    WEFT_RETURN_IF_ERROR(strategy.begin());
    gradient({model.get(), kParameters}, data, batches.next(), slope);
    WEFT_RETURN_IF_ERROR(strategy.step(step));
  }
  std::ranges::fill(slope, 0.0F);
  for (int each = 0; each < kLastExchanges; ++each) {
    WEFT_RETURN_IF_ERROR(context.barrier());
    WEFT_RETURN_IF_ERROR(strategy.step(step));
  }
  WEFT_RETURN_IF_ERROR(strategy.end());
  return model;
}

}  // namespace digits
