// ad_psgd: others write to x at any time, so the gradient is computed at a copy, which is the model.
#include "engine/algorithms/algorithms.h"
#include "engine/strategies/table.h"

namespace weft {
namespace {

class Asynchronous : public StrategyMethod {
 public:
  using StrategyMethod::StrategyMethod;

  Status open() override {
    WEFT_ASSIGN(x_, shared_vector());
    copy(x_->data(), model());
    WEFT_ASSIGN(
        AdPsgd made,
        AdPsgd::create(context(), output(x_->data()),
                       {.name = options().name, .seed = options().seed.value_or(1), .owner = x_}));
    ad_psgd_.emplace(std::move(made));
    return {};
  }
  // A peer that is gone is no error: later averages are with the others.
  Status step(const void* gradient) override {
    WEFT_RETURN_IF_ERROR(ad_psgd_->update([&] { descend(x_->data(), gradient); }));
    const Result<Rank> peer = ad_psgd_->average();
    if (!peer.ok() && !is_gone(peer.status())) return peer.status();
    if (peer.ok() && *peer != kNoRank) count_sent(2);  // x of the peer is read, and written
    return ad_psgd_->read(output(model()));
  }
  // After the barrier nobody averages any more.
  Status end() override {
    WEFT_RETURN_IF_ERROR(context().barrier());
    WEFT_RETURN_IF_ERROR(ad_psgd_->read(output(model())));
    return ad_psgd_->end();
  }

 private:
  std::shared_ptr<Memory> x_;
  std::optional<AdPsgd> ad_psgd_;
};

}  // namespace

std::unique_ptr<StrategyMethod> make_ad_psgd(StrategySetup setup) {
  return std::make_unique<Asynchronous>(std::move(setup));
}

}  // namespace weft
