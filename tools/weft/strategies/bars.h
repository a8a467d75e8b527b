// bars: strategies with and without a slow rank, as a drawing. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct StrategyBar {
  std::string strategy;
  double straggler = 0;  // 0: none, and the first bar of its strategy
  double length = 0;     // of any unit
  std::string text;      // at its end
};

// Under bars of steps/s whose texts bar_text() makes.
inline constexpr std::string_view kKeptText =
    "in brackets: the share of the steps/s without a slow rank";
// "1200", with a straggler "1200 (0.75)".
[[nodiscard]] std::string bar_text(double steps_per_s, double kept, double straggler);

// A bar for each row, one below the other; a line of text follows them.
[[nodiscard]] std::string draw_bars(const std::vector<StrategyBar>& bars, std::string_view title,
                                    std::string_view remark);

}  // namespace weft
