// bars: see the header.
#include "tools/weft/strategies/bars.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/weft/strategies/words.h"
#include "topology/canvas/canvas.h"

namespace weft {

std::string bar_text(double steps_per_s, double kept, double straggler) {
  return straggler > 0 ? fmt::format("{:.0f} ({:.2f})", steps_per_s, kept)
                       : fmt::format("{:.0f}", steps_per_s);
}

std::string draw_bars(const std::vector<StrategyBar>& bars, std::string_view title,
                      std::string_view remark) {
  constexpr double kLeft = 300, kWidth = 420, kTop = 60, kBar = 16;
  double most = 0;
  for (const StrategyBar& bar : bars) most = std::max(most, bar.length);
  Canvas svg(kLeft + kWidth + 120, kTop + kBar * 1.5 * static_cast<double>(bars.size()) + 50);
  svg.title(title);
  double y = kTop;
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const StrategyBar& bar = bars[i];
    const double width = most > 0 ? kWidth * bar.length / most : 0;
    const std::string name =
        bar.straggler > 0 ? "one slow by " + straggler_text(bar.straggler) : bar.strategy;
    svg.text({kLeft - 8, y + kBar - 4}, name, 12, Anchor::end, "#333", bar.straggler == 0);
    svg.rect({kLeft, y}, width, kBar, line_color(bar.straggler > 0 ? 1 : 0));
    svg.text({kLeft + width + 6, y + kBar - 4}, bar.text);
    const bool ends = i + 1 == bars.size() || bars[i + 1].straggler == 0;
    y += kBar * (ends ? 1.7 : 1.15);
  }
  svg.text({kLeft, y + 16}, remark);
  return svg.document();
}

}  // namespace weft
