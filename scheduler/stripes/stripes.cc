// stripes: see the header.
#include "scheduler/stripes/stripes.h"

#include <algorithm>
#include <numeric>

#include "scheduler/vocabulary/vocabulary.h"

namespace weft {
namespace {

constexpr std::size_t kMostPreferringBytes = std::size_t{4} << 20;

}  // namespace

int automatic_lanes(int near_interfaces, int ranks, int cores) {
  constexpr int kUsualMost = 4;
  return std::clamp(cores / ranks / 2, 1, std::clamp(near_interfaces, kUsualMost, kMostLanes));
}

bool is_cut(Collective collective) {
  return has<kCanBeCut>(collective);
}

bool is_cut(std::string_view operation) {
  const auto row = std::ranges::find(kCollectiveFacts, operation, &CollectiveFacts::name);
  return row != kCollectiveFacts.end() && is_cut(row->collective);
}

std::size_t stripes_of(std::size_t bytes, std::size_t lanes) {
  return std::clamp<std::size_t>(bytes / kLeastStripeBytes, 1, lanes);
}

Range stripe_range(std::size_t elements, std::size_t grain, std::span<const std::uint32_t> speeds,
                   std::size_t stripe) {
  const auto sum = [&speeds](std::size_t count) {
    return std::accumulate(speeds.begin(), speeds.begin() + static_cast<std::ptrdiff_t>(count),
                           std::uint64_t{0});
  };
  const auto end = [&](std::size_t count) {
    if (count == speeds.size()) return elements;
    const double share = static_cast<double>(sum(count)) / static_cast<double>(sum(speeds.size()));
    const std::size_t grains = elements / grain;
    return static_cast<std::size_t>(share * static_cast<double>(grains)) * grain;
  };
  const std::size_t begin = end(stripe);
  return {begin, end(stripe + 1) - begin};
}

int preferred_rail(std::size_t bytes, std::size_t rails, std::size_t stripe, std::size_t stripes) {
  if (rails == 0 || bytes > kMostPreferringBytes) return kAnyRail;
  if (stripe >= stripes / rails * rails) return kAnyRail;
  return static_cast<int>(stripe % rails);
}

}  // namespace weft
