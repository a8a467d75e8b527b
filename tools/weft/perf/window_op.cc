// Names, and which options go with them.
#include "tools/weft/perf/window_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "tools/weft/perf/options.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 5> kOps = {"win_put", "win_get", "win_accumulate",
                                                  "win_pages", "mutex"};
constexpr std::array<std::string_view, 4> kWays = {"waits", "sleeps", "computes", "stopped"};
constexpr int kWindowRanks = 2;

Status invalid(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

}  // namespace

std::optional<WindowOp> window_op(std::string_view name) {
  const auto* const found = std::ranges::find(kOps, name);
  if (found == kOps.end()) return std::nullopt;
  return static_cast<WindowOp>(found - kOps.begin());
}

TargetWay target_way(std::string_view name) {
  const auto* const found = std::ranges::find(kWays, name);
  invariant(found != kWays.end(), "a way of the target that was not checked");
  return static_cast<TargetWay>(found - kWays.begin());
}

void fit_window(PerfArguments& asked, bool has_ranks, bool has_sizes) {
  const std::optional<WindowOp> op = window_op(asked.operation);
  if (!op) return;
  if (!has_ranks) asked.ranks = kWindowRanks;
  if (!has_sizes && *op == WindowOp::pages) asked.sizes = "1K";
}

Status check_window(const PerfArguments& asked, WindowOp op) {
  const std::string& name = asked.operation;
  if (asked.ranks != kWindowRanks) {
    return invalid(fmt::format("--ranks {}: {} is measured between {} ranks", asked.ranks, name,
                               kWindowRanks));
  }
  if (std::ranges::find(kWays, asked.target) == kWays.end()) {
    return invalid(fmt::format("--target {}: there are {}", asked.target, fmt::join(kWays, ", ")));
  }
  if (asked.target == "stopped" && asked.in_process)
    return invalid("--target stopped: with --in-process it would stop rank 0, too");
  if (asked.dynamic) return invalid(fmt::format("--dynamic: {} has no weights", name));
  if (asked.in_place || asked.memory_use)
    return invalid(fmt::format("--{}: {} is not measured in such a form",
                               asked.in_place ? "in-place" : "memory-use", name));
  if (!asked.against.empty() && (op == WindowOp::pages || op == WindowOp::mutex))
    return invalid(fmt::format("--against: peers have no {}", name));
  if (asked.check && op == WindowOp::mutex)
    return invalid("--check: mutex has no result to compare");
  return {};
}

}  // namespace weft
