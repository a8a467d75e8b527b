// The C API: schedules. A schedule is a graph that changes at every step. Each rank computes its
// own view of a step alone; the views of all ranks agree.
#pragma once

#include <weft/c/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_schedule weft_schedule;

// Makes a schedule by name: "one_peer_exponential", "inner_outer_ring:local=4", or "one_peer:GRAPH"
// with any text that weft_graph_make() accepts. n is the number of machines for
// machine_exponential, else of ranks. An unknown name is an error that lists the known ones.
WEFT_C_API weft_code weft_schedule_make(const char* spec, int32_t n, weft_schedule** schedule);
// Makes the schedule in which a rank sends at each step to one of its out-neighbors in turn.
WEFT_C_API weft_code weft_schedule_one_peer(const weft_graph* graph, weft_schedule** schedule);
WEFT_C_API weft_code weft_schedule_free(weft_schedule* schedule);

// The name. The memory is the schedule's and valid until the schedule is freed.
WEFT_C_API weft_code weft_schedule_name(const weft_schedule* schedule, const char** name);
// The number of ranks (or of machines).
WEFT_C_API weft_code weft_schedule_size(const weft_schedule* schedule, int32_t* size);
// The number of steps after which the views repeat.
WEFT_C_API weft_code weft_schedule_period(const weft_schedule* schedule, uint64_t* period);
// Every edge of the schedule occurs within any *cover consecutive steps.
WEFT_C_API weft_code weft_schedule_cover(const weft_schedule* schedule, uint64_t* cover);

// What one rank knows of one step: from whom it receives and to whom it sends, ascending by rank.
// The arrays are the caller's. An array that is NULL with capacity 0 is only counted.
typedef struct weft_local_view {
  size_t size;          // sizeof(weft_local_view), set by the caller
  weft_peer* in;        // set by the caller, with room for in_capacity peers
  size_t in_capacity;   // set by the caller
  size_t in_count;      // how many there are
  weft_peer* out;       // set by the caller, with room for out_capacity peers
  size_t out_capacity;  // set by the caller
  size_t out_count;     // how many there are
  double self_weight;
} weft_local_view;
// Fills in the view of `rank` at `step`, which may be any number. Too little room is
// WEFT_INVALID_ARGUMENT; the counts then say how much is needed.
//
// For a step of neighbor_allreduce, give self_weight and `in` as the self weight and the sources of
// weft_weights, and as the destinations `out` with each weight set to 1, because the receiver
// applies the edge's weight.
WEFT_C_API weft_code weft_schedule_local_view(const weft_schedule* schedule, uint64_t step,
                                              int32_t rank, weft_local_view* view);

// Makes the graph of one step.
WEFT_C_API weft_code weft_schedule_step_graph(const weft_schedule* schedule, uint64_t step,
                                              weft_graph** graph);
// Makes the graph of every edge that occurs in a period, with uniform weights.
WEFT_C_API weft_code weft_schedule_union_graph(const weft_schedule* schedule, weft_graph** graph);

#ifdef __cplusplus
}
#endif
