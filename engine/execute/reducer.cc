// reducer: by the caller's thread.
#include "engine/execute/reducer.h"

#include <cstring>

namespace weft {

void reduce_here(const Reducer::Job& job, CombineFunction function, StoreKind store) {
  if (!job.is_copy) return function(job.terms, job.destination, job.count, store, job.divisor);
  const void* const from = job.terms.front().data;
  if (from != job.destination) std::memcpy(job.destination, from, job.count * size_of(job.type));
}

Result<std::unique_ptr<Reducer::Work>> reduce(Reducer* reducer, const Reducer::Job& job) {
  if (reducer != nullptr) {
    WEFT_ASSIGN(std::unique_ptr<Reducer::Work> work, reducer->begin(job));
    if (work != nullptr) return work;
  }
  reduce_here(job, job.is_copy ? nullptr : select_combine(job.type, job.reduction),
              StoreKind::cached);
  return std::unique_ptr<Reducer::Work>();
}

}  // namespace weft
