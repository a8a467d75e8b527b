// The asynchronous methods end with exchanges without gradients, so that the models agree.
#include "examples/digits/methods.h"

#include <algorithm>
#include <utility>

#include "engine/algorithms/algorithms.h"

namespace digits {
namespace {

constexpr int kLastExchanges = 20;

std::vector<float> slope_at(Model model, const Dataset& data, Batches& batches) {
  std::vector<float> slope(kParameters);
  gradient(model, data, batches.next(), slope);
  return slope;
}

void descend(std::span<float> model, const std::vector<float>& slope) {
  for (std::size_t i = 0; i < kParameters; ++i) model[i] -= kStepLength * slope[i];
}

}  // namespace

void descend(const Dataset& data, Batches& batches, std::span<float> model) {
  descend(model, slope_at(model, data, batches));
}

weft::Result<Tensor> learn_by_averaging(weft::Context& context, const Dataset& data,
                                        Batches batches) {
  WEFT_ASSIGN(Tensor model, examples::make_tensor<float>(kParameters));
  WEFT_ASSIGN(Tensor combined, examples::make_tensor<float>(kParameters));
  for (std::size_t step = 0; step < kSteps; ++step) {
    descend(data, batches, {model.get(), kParameters});
    WEFT_RETURN_IF_ERROR(context.neighbor_allreduce(weft::in(model.get(), kParameters),
                                                    weft::out(combined.get(), kParameters)));
    std::swap(model, combined);
  }
  return model;
}

weft::Result<Tensor> learn_by_push_sum(weft::Context& context, const Dataset& data,
                                       Batches batches) {
  WEFT_ASSIGN(const Tensor x, examples::make_tensor<float>(kParameters));
  WEFT_ASSIGN(Tensor z, examples::make_tensor<float>(kParameters));
  const weft::Output estimate = weft::out(z.get(), kParameters);
  WEFT_ASSIGN(weft::PushSum push_sum,
              weft::PushSum::create(context, weft::one_peer(context.graph()),
                                    weft::out(x.get(), kParameters), {.lag = 1}));
  for (std::size_t step = 0; step < kSteps; ++step) {
    WEFT_RETURN_IF_ERROR(push_sum.begin_step());
    const std::vector<float> slope = slope_at({z.get(), kParameters}, data, batches);
    WEFT_RETURN_IF_ERROR(push_sum.end_step());
    descend({x.get(), kParameters}, slope);
    WEFT_RETURN_IF_ERROR(push_sum.debias(estimate));
  }
  for (int each = 0; each < kLastExchanges; ++each) WEFT_RETURN_IF_ERROR(push_sum.step());
  WEFT_RETURN_IF_ERROR(push_sum.settle());
  WEFT_RETURN_IF_ERROR(push_sum.debias(estimate));
  WEFT_RETURN_IF_ERROR(push_sum.end());
  return z;
}

weft::Result<Tensor> learn_by_pairs(weft::Context& context, const Dataset& data, Batches batches) {
  WEFT_ASSIGN(const Tensor x, examples::make_tensor<float>(kParameters));
  WEFT_ASSIGN(Tensor copy, examples::make_tensor<float>(kParameters));
  const weft::Output whole = weft::out(copy.get(), kParameters);
  WEFT_ASSIGN(weft::AdPsgd ad_psgd, weft::AdPsgd::create(context, weft::out(x.get(), kParameters)));
  for (std::size_t step = 0; step < kSteps; ++step) {
    WEFT_RETURN_IF_ERROR(ad_psgd.read(whole));
    const std::vector<float> slope = slope_at({copy.get(), kParameters}, data, batches);
    WEFT_RETURN_IF_ERROR(ad_psgd.update([&] { descend({x.get(), kParameters}, slope); }));
    WEFT_RETURN_IF_ERROR(ad_psgd.average().status());
  }
  for (int each = 0; each < kLastExchanges; ++each) {
    WEFT_RETURN_IF_ERROR(context.barrier());
    WEFT_RETURN_IF_ERROR(ad_psgd.average().status());
  }
  WEFT_RETURN_IF_ERROR(context.barrier());
  WEFT_RETURN_IF_ERROR(ad_psgd.read(whole));
  WEFT_RETURN_IF_ERROR(ad_psgd.end());
  return copy;
}

}  // namespace digits
