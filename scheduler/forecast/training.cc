// training: see the header.
#include "scheduler/forecast/training.h"

#include <algorithm>
#include <numeric>

namespace weft {

Training::Training(const TrainingJob& job)
    : job_(job),
      fabric_(job.ranks, job.per_machine, job.network),
      draws_(job.seed),
      all_(static_cast<std::size_t>(job.ranks)),
      workers_(static_cast<std::size_t>(job.ranks)) {
  std::iota(all_.begin(), all_.end(), 0);
}

void Training::at(double when, std::function<void()> happens) {
  agenda_.push({std::max(when, now_), events_++, std::move(happens)});
}

void Training::begin(Rank rank) {
  model_->begun(rank);
  const bool is_slow = rank == job_.ranks - 1;
  const double chance = 1 + job_.spread * (2 * draws_.unit() - 1);
  const double us = job_.compute_us * chance * (1 + (is_slow ? job_.straggler : 0));
  at(now_ + us, [this, rank, us] {
    of(rank).computed_us = us;
    model_->computed(rank);
  });
}

void Training::end(Rank rank, double when) {
  at(when, [this, rank] {
    ++of(rank).iteration;
    ++ended_;
    begin(rank);
  });
}

bool Training::is_last(std::uint64_t step, Rank place, std::size_t count) {
  return arrive(step, place, count, now_).has_value();
}

std::optional<double> Training::arrive(std::uint64_t step, Rank place, std::size_t count,
                                       double when) {
  const auto found = arrivals_.try_emplace({step, place}).first;
  Arrivals& arrivals = found->second;
  arrivals.last = std::max(arrivals.last, when);
  if (++arrivals.count < count) return std::nullopt;
  const double last = arrivals.last;
  arrivals_.erase(found);
  return last;
}

TrainingForecast Training::run(TrainingModel& model) {
  model_ = &model;
  const std::uint64_t section = static_cast<std::uint64_t>(job_.section.value_or(1)) * all_.size();
  const std::uint64_t quarter = static_cast<std::uint64_t>(job_.steps) / 4 * section;
  const std::uint64_t most = static_cast<std::uint64_t>(job_.steps) * section;
  for (const Rank rank : all_) at(0, [this, rank] { begin(rank); });
  bool is_marked = false;
  while (ended_ < most) {
    invariant(!agenda_.empty(), "some rank computes, or waits for one that does");
    const Event event = agenda_.top();
    agenda_.pop();
    now_ = event.when;
    event.happens();
    if (is_marked || ended_ < quarter) continue;
    is_marked = true;
    mark_ = {now_, fabric_.sent(), dropped_, fabric_.busy_us(now_)};
  }
  return told(most - quarter);
}

TrainingForecast Training::told(std::uint64_t ended) const {
  const double us = now_ - mark_.when;
  TrainingForecast told;
  told.steps_per_s = static_cast<double>(ended) * 1e6 / us;
  told.bytes_per_step = (fabric_.sent() - mark_.sent) / static_cast<double>(ended);
  told.dropped = dropped_ - mark_.dropped;
  std::vector<double> shares = fabric_.busy_us(now_);
  for (std::size_t link = 0; link < shares.size(); ++link)
    shares[link] = (shares[link] - mark_.busy_us[link]) / us;
  const auto busiest = std::ranges::max_element(shares);
  told.busiest = fabric_.link_name(static_cast<std::size_t>(busiest - shares.begin()));
  told.busiest_share = *busiest;
  const auto middle = shares.begin() + std::ssize(shares) / 2;
  std::ranges::nth_element(shares, middle);
  told.median_share = *middle;
  return told;
}

}  // namespace weft
