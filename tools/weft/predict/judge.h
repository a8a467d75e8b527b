// Seats that a search of links has found, judged by what operations would take there. For `weft map` and
// `weft predict`.
#pragma once

#include <span>
#include <string_view>

#include "tools/weft/predict/operation.h"

namespace weft {

// The mean over a schedule's steps.
[[nodiscard]] Result<double> mean_us(const PredictedCase& of, const PredictScene& scene,
                                     SimulateOptions options);

// The search sees one exchange on links, without what ranks combine. If one of `cases` would be slower in
// the seats that were found than in order, the ranks stay in order, and FoundPlacement::rejected says why.
// A case that one of both cannot run, or that has too many messages to be simulated, does not count.
[[nodiscard]] Status keep_if_no_slower(const Cluster& cluster, RailPolicy policy,
                                       std::string_view graph, std::span<const PredictedCase> cases,
                                       const SimulateOptions& options, FoundPlacement& found);

}  // namespace weft
