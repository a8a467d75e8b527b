#include "tools/weft/common/named_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <weft/graph/names.h>
#include <weft/macros.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tools/weft/common/mistake.h"

namespace weft {
namespace {

bool is_among(const std::vector<NamedKind>& kinds, std::string_view name) {
  return std::ranges::any_of(kinds, [name](const NamedKind& kind) {
    return kind.name == name || (!name.empty() && kind.alias == name);
  });
}

}  // namespace

Result<GraphOrSchedule> make_graph_or_schedule(std::string_view spec, int n) {
  const std::string_view name = spec.substr(0, spec.find(':'));
  std::vector<NamedKind> known = graph_names();
  if (is_among(known, name)) {
    WEFT_ASSIGN(Graph graph, make_graph(spec, n));
    return GraphOrSchedule(std::move(graph));
  }
  const std::vector<NamedKind> schedules = schedule_names();
  if (is_among(schedules, name)) {
    WEFT_ASSIGN(Schedule schedule, make_schedule(spec, n));
    return GraphOrSchedule(std::move(schedule));
  }
  known.insert(known.end(), schedules.begin(), schedules.end());
  std::vector<std::string> names;
  for (const NamedKind& kind : known) names.emplace_back(kind.name);
  const std::string near = nearest(name, names);
  return Status(Code::invalid_argument,
                fmt::format("unknown graph or schedule '{}'{}; known are: {}", name,
                            near.empty() ? "" : fmt::format("; did you mean '{}'?", near),
                            fmt::join(names, ", ")));
}

}  // namespace weft
