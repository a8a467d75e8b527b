// The parts of `weft perf` that a rank runs. Each is called on all ranks with equal options and
// prints at rank 0; an error is the first that this rank met.
#pragma once

#include <functional>
#include <memory>

#include "engine/bootstrap/bootstrap.h"
#include "tools/weft/perf/options.h"

namespace weft {

// The operation at every size, next to its limit and its peer.
Status perf_operation(const PerfOptions& options, const Config& config,
                      const std::shared_ptr<Store>& store);
// `weft perf --in-flight N`: N operations at once against one at a time.
Status perf_in_flight(const PerfOptions& options, const Config& config,
                      const std::shared_ptr<Store>& store);
// `weft perf win_put` and the other operations of windows: rank 0 works on the memory of rank 1.
Status perf_window(const PerfOptions& options, const Config& config,
                   const std::shared_ptr<Store>& store);
// `weft perf named`: the tensors of a model, submitted by name.
Status perf_named(const PerfOptions& options, const Config& config,
                  const std::shared_ptr<Store>& store);
// `weft perf limits`: the machine's own figures and the floor of neighbor_allreduce.
Status perf_limits(const PerfOptions& options, const Config& config,
                   const std::shared_ptr<Store>& store);
// `weft perf idle`: the CPU time of an engine that is not used.
Status perf_idle(const PerfOptions& options, const Config& config,
                 const std::shared_ptr<Store>& store);
// `weft perf --memory-use`: what a context holds, by ranks and degree. Runs ranks as threads of its
// own.
Status perf_memory_use(const PerfOptions& options, const Config& config);

// Runs `rank` for each of n ranks as threads of this process, with stores that share a table; the
// first error that is not about another rank.
Status run_as_threads(int ranks, const Config& config,
                      const std::function<Status(const std::shared_ptr<Store>&)>& rank);

}  // namespace weft
