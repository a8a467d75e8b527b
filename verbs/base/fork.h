// fork: a child of a process that uses Weft. Data loaders fork after a job has started. The child has
// copies of the parent's contexts, but none of their threads, and shares the parent's connections and
// its shared memory: an operation that it started would speak as the parent's rank. So in such a child
// every call is an error, objects are destroyed without a word to anybody, and the parent's peers
// notice nothing. A child that execs another program may use Weft as any program.
#pragma once

#include <atomic>
#include <string_view>

#include "verbs/base/status.h"

namespace weft {

// Marks this process as one that uses Weft: children forked from now on are forked children.
// Idempotent.
void mark_process();

// The mark: a byte that is 1 in the process that marked itself and 0 in its children. Null: no process
// of this line has marked itself.
extern std::atomic<const volatile unsigned char*> process_mark;

// Whether this process was forked from one that had marked itself. Costs two loads.
[[nodiscard]] inline bool is_forked_child() {
  const volatile unsigned char* mark = process_mark.load(std::memory_order_acquire);
  return mark != nullptr && *mark == 0;
}

// `unavailable`: "allreduce: this process was forked from …".
[[nodiscard]] Status forked_child_error(std::string_view what);

}  // namespace weft
