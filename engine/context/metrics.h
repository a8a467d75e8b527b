// metrics: what a process has done beside its contexts. Internal to the module.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// From now on the metrics of the process have the shared heap and GPU memory.
void add_process_metrics();
// What a question at the live socket gets: "metrics", "flight", or "flight N" with at most N of the operations
// of each context that have ended. Empty: it is no question.
[[nodiscard]] std::string answer_of_process(std::string_view question);

}  // namespace weft
