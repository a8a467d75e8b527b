// The drawing of a plan: ranks down, phases across, an arrow for each message.
#include <fmt/format.h>

#include <algorithm>

#include "scheduler/simulate/draw.h"

namespace weft {
namespace {

constexpr Rank kRanksDrawn = 32;
constexpr std::uint32_t kPhasesDrawn = 24;
constexpr double kLeft = 70;
constexpr double kTop = 80;

}  // namespace

std::string draw_plan(const Simulation& simulation, const Cluster& cluster,
                      const std::string& title) {
  const Rank all = static_cast<Rank>(simulation.finish_us.size());
  const Rank ranks = std::min(all, kRanksDrawn);
  const auto phases = std::min(static_cast<std::uint32_t>(simulation.phases.size()), kPhasesDrawn);
  const double column = std::clamp(900.0 / std::max(phases, 1U), 60.0, 220.0);
  constexpr double kRow = 24;
  const double width = std::max(kLeft + column * phases + 30, 420.0);
  const simulator::Legend legend(simulation, cluster, width, false);
  const double top = kTop + legend.further_height();
  Canvas svg(width, top + kRow * ranks + 20);
  svg.title(title);
  legend.draw(svg);
  const auto dot = [&](std::uint32_t phase, Rank rank) {
    return Point{kLeft + column * phase, top + kRow * rank};
  };
  for (std::uint32_t phase = 0; phase < phases; ++phase) {
    svg.text({dot(phase, 0).x + column / 2, top - 16}, fmt::format("phase {}", phase + 1), 10,
             Anchor::middle, "#555");
  }
  for (const Bar& bar : simulation.bars) {
    if (bar.kind != Bar::Kind::message || bar.phase > phases) continue;
    if (bar.rank >= ranks || bar.peer >= ranks) continue;
    const Point from = dot(bar.phase - 1, bar.rank);
    const Point to = dot(bar.phase, bar.peer);
    svg.arrow({from.x + 4, from.y}, {to.x - 5, to.y}, simulator::rail_color(bar.rail), 1,
              fmt::format("{} to {}, {} bytes", bar.rank, bar.peer, bar.bytes));
  }
  for (Rank rank = 0; rank < ranks; ++rank) {
    svg.text({kLeft - 12, dot(0, rank).y + 4}, fmt::format("rank {}", rank), 10, Anchor::end);
    for (std::uint32_t phase = 0; phase <= phases; ++phase)
      svg.disc(dot(phase, rank), 3.5, "#1f4e79");
  }
  if (ranks < all || phases < simulation.phases.size()) {
    svg.text({16, top + kRow * ranks + 8},
             fmt::format("the first {} of {} ranks, the first {} of {} phases", ranks, all, phases,
                         simulation.phases.size()),
             10, Anchor::start, "#777");
  }
  return svg.document();
}

}  // namespace weft
