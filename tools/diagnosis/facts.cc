// Words for facts, and the rates of PCI.
#include "tools/diagnosis/facts.h"

#include <fmt/format.h>
#include <sched.h>

#include <array>
#include <cmath>

namespace weft {
namespace {

// Up to Gen2 10 bits carry 8; after it 130 carry 128.
double gbit(double gt_per_s, int lanes) {
  constexpr double kSecondGeneration = 5.0;
  return gt_per_s * lanes * (gt_per_s <= kSecondGeneration ? 8.0 / 10 : 128.0 / 130);
}

// 2.5, 5, 8, 16, 32, 64 GT/s.
int generation(double gt_per_s) {
  constexpr double kThird = 8.0;
  if (gt_per_s < kThird) return gt_per_s < 4 ? 1 : 2;
  return 3 + static_cast<int>(std::lround(std::log2(gt_per_s / kThird)));
}

}  // namespace

double PciLink::gbit_per_s() const {
  return gbit(gt_per_s, lanes);
}
double PciLink::most_gbit_per_s() const {
  return gbit(most_gt_per_s, most_lanes);
}
std::string PciLink::text() const {
  return fmt::format("Gen{} x{}", generation(gt_per_s), lanes);
}

std::vector<int> own_cpus() {
  constexpr int kMost = 1 << 13;  // as Linux counts processors
  std::array<cpu_set_t, kMost / CPU_SETSIZE> sets{};
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof sets, sets.data()) != 0) return cpus;
  for (int cpu = 0; cpu < kMost; ++cpu)
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), sizeof sets, sets.data())) cpus.push_back(cpu);
  return cpus;
}

std::string list_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t at = 0; at < numbers.size();) {
    std::size_t end = at + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[at]);
    if (end - at > 1) text += fmt::format("-{}", numbers[end - 1]);
    at = end;
  }
  return text;
}

}  // namespace weft
