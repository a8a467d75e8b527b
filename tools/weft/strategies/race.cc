// The ranks and the clock that they share.
#include "tools/weft/strategies/race.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <vector>

#include "engine/context/context.h"
#include "tools/weft/perf/perf.h"

namespace weft {
namespace {

using Model = std::vector<float>;

void sleep_until(std::int64_t ns) {
  const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) continue;
}

// Says when the ranks stop: each at the end of the time, if the strategy permits that, else all after
// the same step, which none of them has passed.
class Course {
 public:
  Course(int ranks, const StrategiesArguments& asked)
      : taken_(static_cast<std::size_t>(ranks)),
        steps_(static_cast<std::uint64_t>(asked.steps)),
        length_ns_(static_cast<std::int64_t>(asked.seconds * 1e9)) {}

  // Whether the rank takes another step.
  bool next(Rank rank, bool runs_free) {
    const std::lock_guard lock(mutex_);
    std::uint64_t& mine = taken_[static_cast<std::size_t>(rank)];
    if (end_ns_ == 0) end_ns_ = now_ns() + length_ns_;
    bool goes_on = true;
    if (steps_ != 0) {
      goes_on = mine < steps_;
    } else if (now_ns() >= end_ns_) {
      steps_ = runs_free ? 0 : *std::ranges::max_element(taken_);
      goes_on = mine < steps_;
    }
    mine += goes_on ? 1 : 0;
    return goes_on;
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> taken_;
  std::uint64_t steps_;  // 0: not decided
  const std::int64_t length_ns_;
  std::int64_t end_ns_ = 0;
};

// What a rank tells at its end.
struct Told {
  double steps_per_s = 0;
  StrategyCounts counts;
  Model before_end;
  Model model;
  std::vector<std::pair<double, Model>> snapshots;  // of rank 0: when, and its model
};

class Racer {
 public:
  Racer(const StrategiesOptions& options, const Contestant& contestant, double straggler,
        Course& course, Told& told)
      : options_(options),
        contestant_(contestant),
        straggler_(straggler),
        course_(course),
        told_(told) {}

  Status run(Config config, const std::shared_ptr<Store>& store) {
    const Rank rank = store->rank();
    if (options_.asked.hosts > 1)
      config.host = fmt::format("host{}", rank * options_.asked.hosts / options_.asked.ranks);
    WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::create(config, store));
    WEFT_RETURN_IF_ERROR(context->set_graph(options_.graph));
    const std::size_t size = options_.task->size();
    WEFT_ASSIGN(const Memory memory, Memory::allocate(size * sizeof(float)));
    model_ = {memory.as<float>(), size};
    options_.task->first_model(model_);
    WEFT_ASSIGN(Strategy strategy, Strategy::create(*context, contestant_.name,
                                                    out(model_.data(), size), contestant_.options));
    WEFT_RETURN_IF_ERROR(context->barrier());
    WEFT_RETURN_IF_ERROR(take_steps(strategy, rank));
    told_.before_end.assign(model_.begin(), model_.end());
    told_.counts = strategy.counts();
    WEFT_RETURN_IF_ERROR(strategy.end());
    told_.model.assign(model_.begin(), model_.end());
    return {};
  }

 private:
  // The first step connects, and does not count.
  Status take_steps(Strategy& strategy, Rank rank) {
    const bool is_slow = rank == options_.asked.ranks - 1;
    const double compute_ns = options_.asked.compute_ms * 1e6 * (1 + (is_slow ? straggler_ : 0));
    const bool has_loss = rank == 0 && options_.task->loss(model_).has_value();
    Model slope(model_.size());
    const std::int64_t begin_ns = now_ns();
    std::int64_t first_ns = begin_ns, last_ns = begin_ns;
    std::uint64_t step = 0;
    for (; course_.next(rank, strategy.runs_free()); ++step) {
      const std::int64_t ready_ns = now_ns() + static_cast<std::int64_t>(compute_ns);
      WEFT_RETURN_IF_ERROR(strategy.begin());
      options_.task->slope(rank, step, model_, slope);
      if (compute_ns > 0) sleep_until(ready_ns);
      WEFT_RETURN_IF_ERROR(strategy.step(in(slope.data(), slope.size())));
      last_ns = now_ns();
      if (step == 0) first_ns = last_ns;
      if (has_loss) {
        const double seconds = static_cast<double>(last_ns - begin_ns) / 1e9;
        told_.snapshots.emplace_back(seconds, Model(model_.begin(), model_.end()));
      }
    }
    if (step > 1)
      told_.steps_per_s =
          static_cast<double>(step - 1) * 1e9 / static_cast<double>(last_ns - first_ns);
    return {};
  }

  const StrategiesOptions& options_;
  const Contestant& contestant_;
  const double straggler_;
  Course& course_;
  Told& told_;
  std::span<float> model_;
};

double consensus(const std::vector<Told>& ranks) {
  const std::size_t size = ranks.front().before_end.size();
  std::vector<double> mean(size);
  for (const Told& each : ranks)
    for (std::size_t i = 0; i < size; ++i)
      mean[i] += static_cast<double>(each.before_end[i]) / static_cast<double>(ranks.size());
  double length = 0, farthest = 0;
  for (const double each : mean) length += each * each;
  for (const Told& each : ranks) {
    double apart = 0;
    for (std::size_t i = 0; i < size; ++i)
      apart += std::pow(static_cast<double>(each.before_end[i]) - mean[i], 2);
    farthest = std::max(farthest, apart);
  }
  return length > 0 ? std::sqrt(farthest / length) : 0;
}

// A loss is looked at after every step of the first hundred, then less often.
void find_loss(const Task& task, double wanted, const Told& rank, RaceResult& result) {
  for (std::size_t i = 0; i < rank.snapshots.size(); i += 1 + i / 100) {
    const auto& [seconds, model] = rank.snapshots[i];
    if (!(task.loss(model).value_or(HUGE_VAL) <= wanted)) continue;
    result.seconds_to_loss = seconds;
    result.steps_to_loss = i + 1;
    return;
  }
}

}  // namespace

Result<RaceResult> race(const StrategiesOptions& options, const Config& config,
                        const Contestant& contestant, double straggler) {
  Course course(options.asked.ranks, options.asked);
  std::vector<Told> told(static_cast<std::size_t>(options.asked.ranks));
  WEFT_RETURN_IF_ERROR(
      run_as_threads(options.asked.ranks, config, [&](const std::shared_ptr<Store>& store) {
        Told& mine = told[static_cast<std::size_t>(store->rank())];
        return Racer(options, contestant, straggler, course, mine).run(config, store);
      }));
  RaceResult result;
  result.consensus = consensus(told);
  double accuracy = 0;
  for (const Told& each : told) {
    result.steps_per_s += each.steps_per_s;
    result.steps += each.counts.steps;
    result.dropped += each.counts.dropped;
    const double bytes = static_cast<double>(each.counts.bytes) /
                         static_cast<double>(std::max<std::uint64_t>(each.counts.steps, 1));
    result.bytes_per_step += bytes / static_cast<double>(told.size());
    result.busiest_per_step = std::max(result.busiest_per_step, bytes);
    accuracy += options.task->accuracy(each.model).value_or(0) / static_cast<double>(told.size());
  }
  result.loss = options.task->loss(told[0].model);
  if (result.loss) {
    result.accuracy = accuracy;
    find_loss(*options.task, options.asked.loss, told[0], result);
  }
  return result;
}

}  // namespace weft
