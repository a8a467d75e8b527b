// What ranks do together who know each other without a word: all of them, random pairs, static groups. Each
// waits for the others of its group.
#include <algorithm>
#include <numeric>

#include "scheduler/forecast/table.h"
#include "scheduler/partial/partial.h"

namespace weft {
namespace {

// Up to so many ranks the blocks of a reduce_scatter go directly, else around a ring.
constexpr int kDirectShares = 64;

class Together : public TrainingModel {
 public:
  explicit Together(Training& training, AverageWay way = AverageWay::by_machine)
      : TrainingModel(training), way_(way) {}

  void computed(Rank rank) override {
    Training& it = training();
    const std::uint64_t step = it.iteration(rank);
    const auto section = static_cast<std::uint64_t>(it.job().section.value_or(1));
    if ((step + 1) % section != 0) return it.end(rank, it.now());
    const std::span<const Rank> group = group_of(rank, step / section);
    if (group.size() < 2) return it.end(rank, it.now());
    if (!it.is_last(step, group.front(), group.size())) return;
    const double end = it.fabric().average(it.now(), group, it.job().model_bytes, way_);
    for (const Rank member : group) it.end(member, end);
  }

 protected:
  // The members of the rank's group in its exchange number `exchange`, ascending. Valid until the next call.
  [[nodiscard]] virtual std::span<const Rank> group_of(Rank, std::uint64_t) {
    return training().all();
  }

 private:
  const AverageWay way_;
};

class Pairs : public Together {
 public:
  using Together::Together;

 protected:
  // First with second of a random order, third with fourth, and so on.
  std::span<const Rank> group_of(Rank rank, std::uint64_t exchange) override {
    if (!order_.contains(exchange)) {
      order_[exchange] = training().all();
      training().draws().shuffle(std::span(order_[exchange]));
      order_.erase(order_.begin(), order_.lower_bound(exchange < 2 ? 0 : first_needed()));
    }
    const std::vector<Rank>& order = order_[exchange];
    const auto place = static_cast<std::size_t>(std::ranges::find(order, rank) - order.begin());
    pair_ = {rank};
    if ((place ^ 1U) < order.size()) pair_.push_back(order[place ^ 1U]);
    std::ranges::sort(pair_);
    return pair_;
  }

 private:
  // The exchange before which no rank is.
  [[nodiscard]] std::uint64_t first_needed() const {
    const auto step_of = [&](Rank each) { return training().iteration(each); };
    return step_of(std::ranges::min(training().all(), {}, step_of)) /
           static_cast<std::uint64_t>(training().job().section.value_or(1));
  }

  std::map<std::uint64_t, std::vector<Rank>> order_;  // by exchange
  std::vector<Rank> pair_;
};

class StaticGroups : public Together {
 public:
  using Together::Together;

 protected:
  std::span<const Rank> group_of(Rank rank, std::uint64_t exchange) override {
    const MachineShape shape{training().fabric().machines(), training().job().per_machine};
    group_ = static_group(exchange, shape, rank).value();
    return group_;
  }

 private:
  std::vector<Rank> group_;
};

}  // namespace

std::unique_ptr<TrainingModel> forecast_allreduce(Training& training) {
  return std::make_unique<Together>(training);
}
std::unique_ptr<TrainingModel> forecast_sharded_server(Training& training) {
  const bool is_direct = training.job().ranks <= kDirectShares;
  return std::make_unique<Together>(training, is_direct ? AverageWay::direct : AverageWay::ring);
}
std::unique_ptr<TrainingModel> forecast_ring(Training& training) {
  return std::make_unique<Together>(training, AverageWay::ring);
}
std::unique_ptr<TrainingModel> forecast_noloco(Training& training) {
  return std::make_unique<Pairs>(training);
}
std::unique_ptr<TrainingModel> forecast_prague_static(Training& training) {
  return std::make_unique<StaticGroups>(training);
}

}  // namespace weft
