// What `weft top` shows of a view: lines for people, JSON, Prometheus text. Internal to the command.
#pragma once

#include <string>
#include <vector>

#include "tools/weft/top/observe.h"

namespace weft::dumps {

[[nodiscard]] std::string view_text(const View& view, const std::vector<std::string>& remarks);
[[nodiscard]] std::string view_json(const View& view, const std::vector<std::string>& remarks);
// Gauges weft_top_… of what metrics of the ranks do not have.
[[nodiscard]] std::string view_metrics(const View& view);

}  // namespace weft::dumps
