// canary and its settings: each rank sends its gradient to all others, and takes what has come. In a mesh it sends
// each its share, and the mean of its own share to all.
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
      : TrainingModel(training),
        waits_(waits),
        is_mesh_(training.job().is_mesh.value_or(false)),
        iteration_(training.all().size()) {}

  void computed(Rank rank) override {
    Training& it = training();
    const std::uint64_t own = iteration_of(rank);
    if (waits_ == Waits::drops && *std::ranges::max_element(iteration_) > own + kStaleness)
      return drop(rank);
    const double there = send_all(rank);
    if (waits_ == Waits::for_all) {
      const auto all_there = it.arrive(own, 0, it.all().size(), there);
      if (all_there) it.at(*all_there, [this] { end_all(); });
    } else {
      it.at(there, [this, rank] {
        if (is_mesh_) send_all(rank);  // means, for which it does not wait
        go_on(rank);
      });
    }
  }

 private:
  // A gradient to all others; in a mesh a share of one, or the mean of a share.
  double send_all(Rank rank) {
    Training& it = training();
    const double bytes = it.job().model_bytes / (is_mesh_ ? it.job().ranks : 1);
    return it.fabric().send_all(it.now(), rank, bytes);
  }
  // All gradients are there.
  void end_all() {
    double last = training().now();
    for (const Rank each : training().all())
      if (is_mesh_) last = std::max(last, send_all(each));
    for (const Rank each : training().all()) end(each, last);
  }
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
  const bool is_mesh_;
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
