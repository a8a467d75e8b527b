// pace: which workers are slow, by how long they compute. Internal to the module.
#pragma once

#include <cstdint>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

class Pace {
 public:
  explicit Pace(int workers) : workers_(static_cast<std::size_t>(workers)) {}

  // How long a worker has computed in its last iteration, in microseconds; 0: it does not say.
  void add(Rank rank, std::uint64_t computed_us);
  void remove(Rank rank);
  // How many iterations another worker computes, on average, while this one computes one. The shorter
  // one of its last two counts: a single pause makes no worker slow. 0: it has not said.
  [[nodiscard]] double rounds(Rank rank) const;
  // How long it computes, as a moving average of the same; 0: it has not said.
  [[nodiscard]] double mean_us(Rank rank) const {
    return workers_[static_cast<std::size_t>(rank)].mean_us;
  }

 private:
  struct Worker {
    double last_us = 0;
    double us = 0;       // the shorter one of the last two; 0: not known
    double mean_us = 0;  // of `us`
  };
  void set(Worker& worker, double us);

  std::vector<Worker> workers_;  // by rank
  int known_ = 0;
  double per_us_ = 0;  // iterations of the known ones together
};

}  // namespace weft
