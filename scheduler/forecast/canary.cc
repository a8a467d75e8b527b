// canary and its settings: each rank sends its gradient to all others, and takes what has come.
#include <algorithm>

#include "scheduler/forecast/table.h"

namespace weft {
namespace {

enum class Waits : std::uint8_t { for_all, if_ahead, for_nobody, drops };

// The paper's s. A rank that is later than that has sent none of its gradient when it has computed it.
constexpr std::uint64_t kStaleness = 18;

class CanaryModel : public TrainingModel {
 public:
  CanaryModel(Training& training, Waits waits)
      : TrainingModel(training), waits_(waits), iteration_(training.all().size()) {}

  void computed(Rank rank) override {
    Training& it = training();
    const std::uint64_t own = iteration_of(rank);
    if (waits_ == Waits::drops && *std::ranges::max_element(iteration_) > own + kStaleness)
      return drop(rank);
    const double there = it.fabric().send_all(it.now(), rank, it.job().model_bytes);
    if (waits_ == Waits::for_all) {
      const auto all_there = it.arrive(own, 0, it.all().size(), there);
      if (!all_there) return;
      for (const Rank each : it.all()) end(each, *all_there);
    } else {
      it.at(there, [this, rank] { go_on(rank); });
    }
  }

 private:
  [[nodiscard]] std::uint64_t& iteration_of(Rank rank) {
    return iteration_[static_cast<std::size_t>(rank)];
  }
  void end(Rank rank, double when) {
    ++iteration_of(rank);
    training().end(rank, when);
  }
  // Takes the model of the fastest rank, and is as far as it.
  void drop(Rank rank) {
    Training& it = training();
    it.drop();
    const auto fastest = std::ranges::max_element(iteration_);
    const auto from = static_cast<Rank>(fastest - iteration_.begin());
    iteration_of(rank) = *fastest;
    it.end(rank, it.fabric().send(it.now(), from, rank, it.job().model_bytes));
  }
  // One that is ahead goes on when the slowest has ended its iteration.
  void go_on(Rank rank) {
    const bool is_bounded = waits_ == Waits::if_ahead;
    if (is_bounded && iteration_of(rank) >= slowest() + kStaleness) return ahead_.push_back(rank);
    end(rank, training().now());
    if (!is_bounded || ahead_.empty()) return;
    const std::uint64_t most = slowest() + kStaleness;
    std::erase_if(ahead_, [&](Rank each) {
      if (iteration_of(each) >= most) return false;
      end(each, training().now());
      return true;
    });
  }
  [[nodiscard]] std::uint64_t slowest() const { return *std::ranges::min_element(iteration_); }

  const Waits waits_;
  std::vector<std::uint64_t> iteration_;  // by rank
  std::vector<Rank> ahead_;               // ranks that wait
};

}  // namespace

std::unique_ptr<TrainingModel> forecast_canary(Training& training) {
  return std::make_unique<CanaryModel>(training, Waits::drops);
}
std::unique_ptr<TrainingModel> forecast_canary_bulk(Training& training) {
  return std::make_unique<CanaryModel>(training, Waits::for_all);
}
std::unique_ptr<TrainingModel> forecast_canary_bounded(Training& training) {
  return std::make_unique<CanaryModel>(training, Waits::if_ahead);
}
std::unique_ptr<TrainingModel> forecast_canary_asynchronous(Training& training) {
  return std::make_unique<CanaryModel>(training, Waits::for_nobody);
}

}  // namespace weft
