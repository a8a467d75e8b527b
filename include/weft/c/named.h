// The C API: operations that ranks submit by name, in any order. weft/named.h says what that means.
//
//   weft_named* named = NULL;
//   weft_context_named(context, NULL, &named);                            // collective
//   weft_named_start(named, "layer1.weight", &request, 0, &handle);       // each rank in its order
//   weft_handle_wait(handle);
//   weft_named_end(named);                                                // collective
//   weft_named_free(named);                                               // the handle
//
// A request is that of weft_run(). A name is in use until its operation has ended. The context must
// outlive the object.
#pragma once

#include <weft/c/context.h>
#include <weft/c/handle.h>
#include <weft/c/operations.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_named weft_named;

// Zero stands for the default. NULL: all defaults.
typedef struct weft_named_options {
  size_t size;                 // sizeof(weft_named_options)
  int64_t cache_capacity;      // names of the response cache; 0: 1024; negative: none
  int64_t fusion_bytes;        // of a message of several tensors; 0: by rule; negative: never
  int64_t fused_tensor_bytes;  // a larger tensor travels alone; 0: by rule
  int64_t gather_us;           // wait for more before telling the others; 0: by rule
  int64_t stall_ms;            // a name pending for so long is told in the log; 0: 10,000
  int32_t autotune;            // 1: finds what is by rule by trying; all ranks give the same
  int64_t piece_bytes;         // of a message to another machine, at most; 0: by rule
} weft_named_options;

// Collective. The object has connections and a thread of its own.
WEFT_C_API weft_code weft_context_named(weft_context* context, const weft_named_options* options,
                                        weft_named** named);
// Frees the handle; with the last one the object ends without the other ranks.
WEFT_C_API weft_code weft_named_free(weft_named* named);

// Submits an operation. Of operations that are ready at the same time, those with a higher priority
// run first.
WEFT_C_API weft_code weft_named_start(weft_named* named, const char* name,
                                      const weft_request* request, int32_t priority,
                                      weft_handle** handle);
// The same, and waits for its end.
WEFT_C_API weft_code weft_named_run(weft_named* named, const char* name,
                                    const weft_request* request, int32_t priority);
// Submits a group of `count` operations of one kind, which run together once every rank has
// submitted the group. The requests have one size.
WEFT_C_API weft_code weft_named_start_group(weft_named* named, const char* name,
                                            const weft_request* requests, size_t count,
                                            int32_t priority, weft_handle** handle);

// This rank has no more data: it contributes zeros to every allreduce until all ranks have joined.
// *last is the rank that joined last.
WEFT_C_API weft_code weft_named_join(weft_named* named, int32_t* last);
// The graph of neighbor operations without peers of their own.
WEFT_C_API weft_code weft_named_set_graph(weft_named* named, const weft_graph* graph, int weighted);

typedef struct weft_named_usage {
  size_t size;                    // sizeof(weft_named_usage), set by the caller
  uint64_t submitted;             // names
  uint64_t cycles;                // agreements between all ranks
  uint64_t control_bytes;         // that this rank sent to agree
  uint64_t control_messages;      // the same
  uint64_t coordinator_messages;  // of these, requests that are not in the cache
  uint64_t cache_hits;
  uint64_t batches;  // operations that ran
  uint64_t fused;    // names that ran together with others
  uint64_t pending;
  uint64_t fusion_buffer_bytes;
  // Batches by how many names ran together: element k has those of 2^k to 2^(k+1) - 1 names, the
  // last one also those of more.
  uint64_t batches_by_names[12];
  // What operations of all ranks are fused by now; gather_us -1: by rule.
  uint64_t fusion_bytes;
  uint64_t fused_tensor_bytes;
  int64_t gather_us;
  int32_t is_tuning;  // 1 at rank 0, as long as autotune has not found the best values
  uint64_t piece_bytes;
} weft_named_usage;
WEFT_C_API weft_code weft_named_get_usage(weft_named* named, weft_named_usage* usage);

// Ends the object. Collective. Pending operations are an error.
WEFT_C_API weft_code weft_named_end(weft_named* named);

#ifdef __cplusplus
}
#endif
