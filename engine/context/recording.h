// recording: the calls of a context that are written to a file (WEFT_RECORD), and what each needs to be run
// again. Internal to the module.
//
// Only the job's first context is recorded, and not the contexts of split(), of names and of terms: each of
// those would need a file of its own. An operation is left out if its tensors are not in memory of the host
// as they are: in GPU memory, or compressed.
#pragma once

#include <memory>

#include "engine/operation/operation.h"
#include "engine/record/record.h"

namespace weft {

// The edges of a neighbor operation in ranks, with the weights of both ends.
void record_edges(const Call& call, RecordedCall& to);

// Writes the call of a bound operation, and makes the operation write the digest of its result before its
// handle is done.
void record_call(const std::shared_ptr<Recorder>& recorder, const Request& request,
                 Operation& operation);

}  // namespace weft
