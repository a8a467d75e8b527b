// The recommendation, by trying.
#include "tools/weft/common/lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "scheduler/simulate/simulate.h"

namespace weft {
namespace {

constexpr double kWorthIt = 0.9;        // of what one lane takes
constexpr double kHardlyLonger = 1.05;  // than the best

}  // namespace

int cores_per_rank(const Cluster& cluster) {
  int fewest = 0;
  for (const ClusterMachine& machine : cluster.machines) {
    if (machine.hardware->cores == 0 || machine.ranks == 0) continue;
    const int cores = std::max(1, machine.hardware->cores / machine.ranks);
    fewest = fewest == 0 ? cores : std::min(fewest, cores);
  }
  return fewest;
}

int most_lanes(const Cluster& cluster, std::size_t bytes) {
  const int cores = cores_per_rank(cluster);
  const std::size_t stripes = std::max<std::size_t>(bytes / kLeastStripeBytes, 1);
  const std::size_t most = std::min<std::size_t>(stripes, kMostLanes);
  return cores == 0 ? static_cast<int>(most) : std::min(static_cast<int>(most), cores);
}

Result<LaneAdvice> advise_lanes(double one_us, int most,
                                const std::function<Result<double>(int)>& us_of) {
  std::vector<LaneAdvice> tried;
  for (int lanes = 2; lanes <= most; lanes = lanes < most ? std::min(2 * lanes, most) : most + 1) {
    WEFT_ASSIGN(const double us, us_of(lanes));
    tried.push_back({lanes, us});
  }
  if (tried.empty()) return LaneAdvice{1, one_us};
  const double best = std::ranges::min_element(tried, {}, &LaneAdvice::us)->us;
  if (best > kWorthIt * one_us) return LaneAdvice{1, one_us};
  return *std::ranges::find_if(
      tried, [&](const LaneAdvice& one) { return one.us <= kHardlyLonger * best; });
}

std::string cores_text(const Cluster& cluster) {
  const int cores = cores_per_rank(cluster);
  if (cores == 0) return "(how many cores a rank has is not known)";
  return fmt::format("(a rank has {} {})", cores, cores == 1 ? "core" : "cores");
}

}  // namespace weft
