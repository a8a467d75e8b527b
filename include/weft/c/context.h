// The C API: contexts. A context is a rank's membership in a job.
//
// In a child that was forked from a process with a context, every operation is WEFT_UNAVAILABLE,
// and freeing a context does nothing to the parent.
#pragma once

#include <weft/c/graph.h>
#include <weft/c/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_context weft_context;

// The color of ranks that take no part in a split.
enum { WEFT_NO_COLOR = -1 };

// Reads the environment and joins the job that it names: by `weft run`, by a launcher with PMIx, or
// by WEFT_RENDEZVOUS, WEFT_RANK and WEFT_SIZE. If it names none, the rank is alone. Collective.
WEFT_C_API weft_code weft_context_from_environment(weft_context** context);
// Joins the job that `store` leads to. Collective.
WEFT_C_API weft_code weft_context_create(const weft_config* config, const weft_store* store,
                                         weft_context** context);
// Makes a context of the ranks that give the same color, numbered anew by (key, rank). *made is
// NULL for a negative color. The new context is independent of this one. Collective over `context`.
WEFT_C_API weft_code weft_context_split(weft_context* context, int32_t color, int32_t key,
                                        weft_context** made);
// Makes a context of the ranks that are left when others have died or left, numbered anew in their
// order. Collective over those that are left. `context` may have failed because of the others.
WEFT_C_API weft_code weft_context_shrink(weft_context* context, weft_context** made);
// Some memory, as count elements of a type.
typedef struct weft_tensor {
  void* data;
  size_t count;
  weft_data_type type;
} weft_tensor;
// Lets in ranks that have come back (WEFT_ON_DEATH=skip, `weft run --restart`). Collective over the members,
// between two steps; a rank that has come back calls it first, and waits until the others call it. `state`: what
// a rank needs to go on, the same sizes and types on all ranks, in host memory; a rank that comes in takes
// that of a neighbor. *count := how many came in; `ranks` has room for `capacity`, for which the size of the job is always
// enough, and NULL with capacity 0 only counts.
WEFT_C_API weft_code weft_context_admit(weft_context* context, const weft_tensor* state,
                                        size_t tensors, int32_t* ranks, size_t capacity,
                                        size_t* count);
// Leaves the job. Started operations that are not done fail with WEFT_CLOSED. If other threads have
// calls running on the context, it leaves when the last of them returns. Later calls on the context
// are WEFT_CLOSED, except weft_context_close() itself and weft_context_free().
WEFT_C_API weft_code weft_context_close(weft_context* context);
// Closes the context if it is open, and frees the handle.
WEFT_C_API weft_code weft_context_free(weft_context* context);

// This rank, and the number of ranks.
WEFT_C_API weft_code weft_context_rank(const weft_context* context, int32_t* rank);
WEFT_C_API weft_code weft_context_size(const weft_context* context, int32_t* size);
// The ranks that are there, ascending, into memory for `capacity` ranks; *count := how many there are. With
// WEFT_ON_DEATH=skip those with which operations go on; else all of which this rank has not heard
// that they died or left. NULL with capacity 0 only counts.
WEFT_C_API weft_code weft_context_members(const weft_context* context, int32_t* ranks,
                                          size_t capacity, size_t* count);

// Where this rank is. Only the ranks of this context count, also after a split. All ranks have the
// same answer about machines.
typedef struct weft_placement {
  size_t size;             // sizeof(weft_placement), set by the caller
  int32_t local_rank;      // among the ranks of its machine, ascending by rank
  int32_t local_size;      // ranks on its machine
  int32_t machine_rank;    // machines are numbered by their lowest rank
  int32_t machine_size;    // machines
  int32_t is_homogeneous;  // 1: all machines have local_size ranks
  int32_t rails;           // rails between machines that can be busy at the same time
} weft_placement;
// The first call reads one value of each rank, so it waits until all ranks have joined.
WEFT_C_API weft_code weft_context_placement(const weft_context* context, weft_placement* placement);
// Parts of weft_context_placement().
WEFT_C_API weft_code weft_context_local_rank(const weft_context* context, int32_t* local_rank);
WEFT_C_API weft_code weft_context_local_size(const weft_context* context, int32_t* local_size);
WEFT_C_API weft_code weft_context_machine_rank(const weft_context* context, int32_t* machine_rank);
WEFT_C_API weft_code weft_context_machine_size(const weft_context* context, int32_t* machine_size);
// The number of the machine of any rank.
WEFT_C_API weft_code weft_context_machine_of(const weft_context* context, int32_t rank,
                                             int32_t* machine);

// Sets the graph of neighbor operations. If `weighted` is not 0, they use the graph's weights, else
// uniform ones. Waits for operations in flight. The context keeps what it needs, so the caller may
// free the graph. Collective: all ranks give the same graph.
WEFT_C_API weft_code weft_context_set_graph(weft_context* context, const weft_graph* graph,
                                            int weighted);
// The graph that is set, as a new handle that the caller frees.
WEFT_C_API weft_code weft_context_graph(const weft_context* context, weft_graph** graph);
// Sets the graph over machines, for hierarchical_neighbor_allreduce. Collective.
WEFT_C_API weft_code weft_context_set_machine_graph(weft_context* context, const weft_graph* graph,
                                                    int weighted);
// The machine graph as a new handle that the caller frees; *graph is NULL if none was set.
WEFT_C_API weft_code weft_context_machine_graph(const weft_context* context, weft_graph** graph);

// A copy of the context's configuration, which the caller frees.
WEFT_C_API weft_code weft_context_config(const weft_context* context, weft_config** config);

// What the context holds and has done; for tools and tests.
typedef struct weft_usage {
  size_t size;  // sizeof(weft_usage), set by the caller
  uint64_t connected_peers;
  uint64_t endpoint_bytes;  // message rings, this rank's share
  uint64_t scratch_bytes;   // scratch and staging
  uint64_t plans_cached;
  uint64_t operations;     // completed
  uint64_t network_bytes;  // sent to ranks that do not share this rank's memory, each byte once
  uint64_t allocations;    // made by operations after their first use of a shape
} weft_usage;
WEFT_C_API weft_code weft_context_usage(const weft_context* context, weft_usage* usage);
// Says why the last operation ran as it did: algorithm, path per peer, memory, one line each. The
// caller frees *text with weft_string_free().
WEFT_C_API weft_code weft_context_explain(const weft_context* context, char** text);

// What Weft has done in this process, as text for Prometheus (format 0.0.4): every open context, the
// operations by name, the shared heap and GPU memory. docs/metrics.md has all names. The caller
// frees *text with weft_string_free().
WEFT_C_API weft_code weft_metrics(char** text);
// The flight recorder of this process: the last thousand operations of each context, and who waits for
// whom, a JSON object on each line, for `weft flight` (docs/live.md). The caller frees *text with
// weft_string_free().
WEFT_C_API weft_code weft_flight(char** text);

#ifdef __cplusplus
}
#endif
