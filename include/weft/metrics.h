// metrics: what Weft has done in this process, as text for Prometheus (format 0.0.4).
//
// The text covers every open context, the operations by name, the shared heap and GPU memory. It is
// meant for a file that a scraper reads (WEFT_METRICS writes one every 10 s), or for the program's
// own answer to a scraper. docs/metrics.md has all names.
#pragma once

#include <weft/export.h>

#include <string>

namespace WEFT_PUBLIC weft {

// Any thread; waits for each context's lane for a moment.
[[nodiscard]] std::string metrics();

// The flight recorder of this process: the last thousand operations of each context, and who waits
// for whom, a JSON object on each line. `weft flight` reads the texts of all ranks and says who did not
// call what (docs/live.md). WEFT_FLIGHT writes it to a file when a context fails. Any thread; waits for each
// context's lane for a moment.
[[nodiscard]] std::string flight();

}  // namespace weft
