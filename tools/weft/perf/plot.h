// plot: what `weft perf --json` wrote, as curves over the size.
//
// Rows of one series (an operation with its ranks, graph, memory and so on) become times: Weft's, the
// limit's and the peer's. Rows of several series become one curve each: how many times as fast as the
// peer Weft is, or the time where a row has no peer. Pure, but for reading the file.
#pragma once

#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

// One line of JSON a row.
[[nodiscard]] Result<std::vector<std::string>> read_rows(const std::string& path);
// `name` stands for the rows in errors: "NAME:3: a row needs \"bytes\"".
[[nodiscard]] Result<std::string> perf_svg(const std::vector<std::string>& rows,
                                           const std::string& name);

}  // namespace weft
