// The C API: operations. Each exists as a blocking function and, with the name `…_start`, as one that
// sets *handle to a handle, which the caller frees with weft_handle_free(). A function that starts an
// operation does not wait for other ranks. If it fails, *handle is NULL and nothing was started.
// weft_run() and weft_start() take any operation as a value.
//
// Operations are ordered: every rank of the context calls the same operations in the same order.
// Subset operations (send, recv, pair_average, group_average) are ordered only between two ranks
// that share them. Every wait ends within WEFT_DEADLINE_MS. If an operation fails, the context has
// failed, and later calls return the first error. Wrong arguments fail only the call.
//
// x is what this rank gives, y what it gets. Counts are in elements of `type`. Both memories belong
// to the operation until it is done: until then the caller must not write x and must not touch y. x
// is never modified unless x and y are the same memory. Arrays of counts, ranks and weights are
// read during the call only. An array that may be NULL has a length of 0 then.
#pragma once

#include <weft/c/context.h>
#include <weft/c/handle.h>
#include <weft/c/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Values of weft_operation.
enum {
  WEFT_NEIGHBOR_ALLREDUCE = 1,
  WEFT_NEIGHBOR_ALLGATHER = 2,
  WEFT_ALLREDUCE = 3,
  WEFT_BROADCAST = 4,
  WEFT_BARRIER = 5,
  WEFT_ALLGATHER = 6,
  WEFT_REDUCE_SCATTER = 7,
  WEFT_REDUCE = 8,
  WEFT_GATHER = 9,
  WEFT_SCATTER = 10,
  WEFT_ALLTOALL = 11,
  WEFT_SEND = 12,  // also the matching receive: weft_request.receives
  WEFT_PAIR_AVERAGE = 13,
  WEFT_GROUP_AVERAGE = 14,
  WEFT_HIERARCHICAL_NEIGHBOR_ALLREDUCE = 15,
  WEFT_LOCAL_ALLREDUCE = 16
};

// Runs the operation that the request asks for, until it is done.
WEFT_C_API weft_code weft_run(weft_context* context, const weft_request* request);
// Starts it.
WEFT_C_API weft_code weft_start(weft_context* context, const weft_request* request,
                                weft_handle** handle);

// Declares a blocking function, and one that starts the same operation. Its name ends in `_start`, and
// it has a last argument more:
//
//   weft_code weft_allreduce(weft_context* context, …, weft_reduce_op op);
//   weft_code weft_allreduce_start(weft_context* context, …, weft_reduce_op op, weft_handle** handle);
#define WEFT_C_OPERATION(name, ...)       \
  WEFT_C_API weft_code name(__VA_ARGS__); \
  WEFT_C_API weft_code name##_start(__VA_ARGS__, weft_handle** handle)

// y := the weighted sum of this rank's x and its in-neighbors' x. `weights` NULL: those of the
// graph, as weft_context_set_graph() says. Floating types.
WEFT_C_OPERATION(weft_neighbor_allreduce, weft_context* context, const void* x, void* y,
                 size_t count, weft_data_type type, const weft_weights* weights);

// First x is averaged inside each machine, then y := the weighted sum of the averages of this
// machine and its in-neighbors in the machine graph. All ranks of a machine give the same weights,
// in which machines stand for ranks, and get the same bits. Floating types.
WEFT_C_OPERATION(weft_hierarchical_neighbor_allreduce, weft_context* context, const void* x,
                 void* y, size_t count, weft_data_type type, const weft_weights* machine_weights);

// y := the in-neighbors' x, one after another by ascending rank. counts: elements from each
// in-neighbor; NULL: x_count from each. y_count is the sum of the counts.
WEFT_C_OPERATION(weft_neighbor_allgather, weft_context* context, const void* x, size_t x_count,
                 void* y, size_t y_count, weft_data_type type, const size_t* counts,
                 size_t counts_length);

// y := the reduction of the x of all ranks. The algorithm is automatic; weft_run() takes others.
WEFT_C_OPERATION(weft_allreduce, weft_context* context, const void* x, void* y, size_t count,
                 weft_data_type type, weft_reduce_op op);

// The same among the ranks of each machine. All ranks of the context call it, but machines do not
// wait for each other.
WEFT_C_OPERATION(weft_local_allreduce, weft_context* context, const void* x, void* y, size_t count,
                 weft_data_type type, weft_reduce_op op);

// The y of every rank := the root's x. On other ranks than the root, x may be NULL.
WEFT_C_OPERATION(weft_broadcast, weft_context* context, const void* x, void* y, size_t count,
                 weft_data_type type, int32_t root);

// Returns when all ranks have called it.
WEFT_C_OPERATION(weft_barrier, weft_context* context);

// y := the x of all ranks, one after another by rank. counts: elements from each rank; NULL:
// x_count from each. y_count is the sum of the counts. In place: x is this rank's block of y.
WEFT_C_OPERATION(weft_allgather, weft_context* context, const void* x, size_t x_count, void* y,
                 size_t y_count, weft_data_type type, const size_t* counts, size_t counts_length);

// y := this rank's block of the reduction of the x of all ranks. counts: elements of each rank's
// block, whose sum is x_count; NULL: blocks that are equal, or differ by one. In place: y is this
// rank's block of x.
WEFT_C_OPERATION(weft_reduce_scatter, weft_context* context, const void* x, size_t x_count, void* y,
                 size_t y_count, weft_data_type type, weft_reduce_op op, const size_t* counts,
                 size_t counts_length);

// The root's y := the reduction of the x of all ranks. On other ranks, y is not written and may be
// NULL.
WEFT_C_OPERATION(weft_reduce, weft_context* context, const void* x, void* y, size_t count,
                 weft_data_type type, weft_reduce_op op, int32_t root);

// The root's y := the x of all ranks, one after another by rank, with counts as for allgather. On
// other ranks, y and counts may be NULL with counts of 0.
WEFT_C_OPERATION(weft_gather, weft_context* context, const void* x, size_t x_count, void* y,
                 size_t y_count, weft_data_type type, const size_t* counts, size_t counts_length,
                 int32_t root);

// y := this rank's block of the root's x. counts: elements of each rank's block, whose sum is
// x_count; NULL: y_count for each. On other ranks than the root, x and counts may be NULL with
// counts of 0. In place at the root: y is the root's block of x.
WEFT_C_OPERATION(weft_scatter, weft_context* context, const void* x, size_t x_count, void* y,
                 size_t y_count, weft_data_type type, const size_t* counts, size_t counts_length,
                 int32_t root);

// Block r of y := block `rank` of rank r's x. x and y have `count` elements each, in as many equal
// blocks as there are ranks.
WEFT_C_OPERATION(weft_alltoall, weft_context* context, const void* x, void* y, size_t count,
                 weft_data_type type);

// The same with blocks of any size: send_counts and receive_counts have the elements to and from
// each rank, and counts_length is the number of ranks. Both NULL with 0: equal blocks. What rank i
// sends to rank j is what j receives from i. In place, the counts of both directions must be equal.
WEFT_C_OPERATION(weft_alltoallv, weft_context* context, const void* x, size_t x_count, void* y,
                 size_t y_count, weft_data_type type, const size_t* send_counts,
                 const size_t* receive_counts, size_t counts_length);

// Sends x to another rank. The k-th send to a rank meets the k-th recv of that rank from this one;
// both have the same type and count.
WEFT_C_OPERATION(weft_send, weft_context* context, const void* x, size_t count, weft_data_type type,
                 int32_t to);

// Receives y from another rank.
WEFT_C_OPERATION(weft_recv, weft_context* context, void* y, size_t count, weft_data_type type,
                 int32_t from);
// *there := 1 if a message of `from` has arrived for which no recv has been called, else 0. Waits at
// most for the rank to join. A receiver that takes messages of any rank asks for each.
WEFT_C_API weft_code weft_has_message(weft_context* context, int32_t from, int32_t* there);

// y := self_weight x + pair_weight (x of the peer). Both ranks call it, each with its own weights
// (usually 0.5 and 0.5). Floating types.
WEFT_C_OPERATION(weft_pair_average, weft_context* context, const void* x, void* y, size_t count,
                 weft_data_type type, int32_t peer, double self_weight, double pair_weight);

// y := the mean of x over a group of ranks. Only they call it, each with `ranks` in any order.
// Groups without a common rank run at the same time. Floating types.
WEFT_C_OPERATION(weft_group_average, weft_context* context, const void* x, void* y, size_t count,
                 weft_data_type type, const int32_t* ranks, size_t ranks_length);

#ifdef __cplusplus
}
#endif
