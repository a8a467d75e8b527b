// pace: see the header.
#include "scheduler/partial/pace.h"

#include <algorithm>

namespace weft {
namespace {

constexpr double kNewest = 0.1;  // the part of a new value in the average

}  // namespace

void Pace::add(Rank rank, std::uint64_t computed_us) {
  if (computed_us == 0) return;
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  const auto us = static_cast<double>(computed_us);
  set(worker, worker.last_us == 0 ? us : std::min(us, worker.last_us));
  worker.last_us = us;
}

void Pace::remove(Rank rank) {
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  set(worker, 0);
  worker.last_us = 0;
}

void Pace::set(Worker& worker, double us) {
  if (worker.us != 0) {
    per_us_ -= 1 / worker.us;
    --known_;
  }
  worker.us = us;
  worker.mean_us =
      us == 0 || worker.mean_us == 0 ? us : worker.mean_us + kNewest * (us - worker.mean_us);
  if (us == 0) return;
  per_us_ += 1 / us;
  ++known_;
}

double Pace::rounds(Rank rank) const {
  return known_ == 0 ? 0 : workers_[static_cast<std::size_t>(rank)].us * per_us_ / known_;
}

}  // namespace weft
