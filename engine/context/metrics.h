// metrics: what a process has done beside its contexts. Internal to the module.
#pragma once

namespace weft {

// From now on the metrics of the process have the shared heap and GPU memory.
void add_process_metrics();

}  // namespace weft
