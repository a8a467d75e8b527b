// Seats judged by simulating operations.
#include "tools/weft/predict/judge.h"

#include <fmt/format.h>

#include <optional>

#include "tools/weft/common/bytes.h"

namespace weft {
namespace {

// Nothing: it cannot run there, or is too large.
Result<std::optional<double>> us_in(const Cluster& cluster, const Placement& placement,
                                    RailPolicy policy, std::string_view graph,
                                    const PredictedCase& of, const SimulateOptions& options) {
  WEFT_ASSIGN(const PredictScene scene, set_scene(cluster, placement, policy, graph, of.operation));
  if (!check(of, scene).ok()) return std::optional<double>();
  const Result<double> us = mean_us(of, scene, options);
  if (us.ok()) return std::optional(*us);
  const Code code = us.status().code();
  if (code == Code::unavailable || code == Code::exhausted) return std::optional<double>();
  return us.status();
}

}  // namespace

Result<double> mean_us(const PredictedCase& of, const PredictScene& scene,
                       SimulateOptions options) {
  options.lanes = of.lanes;
  double us = 0;
  for (std::size_t step = 0; step < scene.steps.size(); ++step) {
    const SimulatedJob job{scene.cluster, scene.placement,           scene.rails,
                           scene.ranks(), plans_of(of, scene, step), operands_of(of, scene)};
    WEFT_ASSIGN(const Simulation simulation, simulate(job, options));
    us += simulation.total_us / static_cast<double>(scene.steps.size());
  }
  return us;
}

Status keep_if_no_slower(const Cluster& cluster, RailPolicy policy, std::string_view graph,
                         std::span<const PredictedCase> cases, const SimulateOptions& options,
                         FoundPlacement& found) {
  if (found.is_identity()) return {};
  constexpr double kRounding = 1e-6;
  const Placement in_order = Placement::identity(static_cast<int>(found.placement.seat.size()));
  for (const PredictedCase& of : cases) {
    WEFT_ASSIGN(const std::optional<double> there,
                us_in(cluster, found.placement, policy, graph, of, options));
    WEFT_ASSIGN(const std::optional<double> here,
                us_in(cluster, in_order, policy, graph, of, options));
    if (!there || !here || *there <= *here * (1 + kRounding)) continue;
    found.rejected = fmt::format("{} of {} would take {:.1f} us there instead of {:.1f}", of.text(),
                                 bytes_text(of.bytes), *there, *here);
    found.placement = in_order;
    found.found = found.identity;
    return {};
  }
  return {};
}

}  // namespace weft
