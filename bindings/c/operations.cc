// operations: the two functions of each operation, which make one request.
#include "bindings/c/run.h"

// A name, the parameters behind the context, and the members of the request that are not 0.
#define WEFT_OPERATION(name, parameters, ...)                                                      \
  weft_code name(weft_context* context WEFT_MORE parameters) {                                     \
    return weft::c::run(__func__, context, {.size = sizeof(weft_request), __VA_ARGS__});           \
  }                                                                                                \
  weft_code name##_start(weft_context* context WEFT_MORE parameters, weft_handle** handle) {       \
    return weft::c::start(__func__, context, {.size = sizeof(weft_request), __VA_ARGS__}, handle); \
  }
#define WEFT_MORE(...) __VA_OPT__(, ) __VA_ARGS__

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

WEFT_OPERATION(weft_allreduce,
               (const void* x, void* y, size_t count, weft_data_type type, weft_reduce_op op),
               .operation = WEFT_ALLREDUCE, .type = type, .x = x, .x_count = count, .y = y,
               .y_count = count, .op = op)

WEFT_OPERATION(weft_local_allreduce,
               (const void* x, void* y, size_t count, weft_data_type type, weft_reduce_op op),
               .operation = WEFT_LOCAL_ALLREDUCE, .type = type, .x = x, .x_count = count, .y = y,
               .y_count = count, .op = op)

WEFT_OPERATION(weft_broadcast,
               (const void* x, void* y, size_t count, weft_data_type type, int32_t root),
               .operation = WEFT_BROADCAST, .type = type, .x = x, .x_count = count, .y = y,
               .y_count = count, .root = root)

WEFT_OPERATION(weft_barrier, (), .operation = WEFT_BARRIER)

WEFT_OPERATION(weft_reduce,
               (const void* x, void* y, size_t count, weft_data_type type, weft_reduce_op op,
                int32_t root),
               .operation = WEFT_REDUCE, .type = type, .x = x, .x_count = count, .y = y,
               .y_count = count, .op = op, .root = root)

WEFT_OPERATION(weft_neighbor_allreduce,
               (const void* x, void* y, size_t count, weft_data_type type,
                const weft_weights* weights),
               .operation = WEFT_NEIGHBOR_ALLREDUCE, .type = type, .x = x, .x_count = count, .y = y,
               .y_count = count, .weights = weights)

WEFT_OPERATION(weft_hierarchical_neighbor_allreduce,
               (const void* x, void* y, size_t count, weft_data_type type,
                const weft_weights* machine_weights),
               .operation = WEFT_HIERARCHICAL_NEIGHBOR_ALLREDUCE, .type = type, .x = x,
               .x_count = count, .y = y, .y_count = count, .weights = machine_weights)

WEFT_OPERATION(weft_neighbor_allgather,
               (const void* x, size_t x_count, void* y, size_t y_count, weft_data_type type,
                const size_t* counts, size_t counts_length),
               .operation = WEFT_NEIGHBOR_ALLGATHER, .type = type, .x = x, .x_count = x_count,
               .y = y, .y_count = y_count, .counts = counts, .counts_length = counts_length)

WEFT_OPERATION(weft_allgather,
               (const void* x, size_t x_count, void* y, size_t y_count, weft_data_type type,
                const size_t* counts, size_t counts_length),
               .operation = WEFT_ALLGATHER, .type = type, .x = x, .x_count = x_count, .y = y,
               .y_count = y_count, .counts = counts, .counts_length = counts_length)

WEFT_OPERATION(weft_reduce_scatter,
               (const void* x, size_t x_count, void* y, size_t y_count, weft_data_type type,
                weft_reduce_op op, const size_t* counts, size_t counts_length),
               .operation = WEFT_REDUCE_SCATTER, .type = type, .x = x, .x_count = x_count, .y = y,
               .y_count = y_count, .op = op, .counts = counts, .counts_length = counts_length)

WEFT_OPERATION(weft_gather,
               (const void* x, size_t x_count, void* y, size_t y_count, weft_data_type type,
                const size_t* counts, size_t counts_length, int32_t root),
               .operation = WEFT_GATHER, .type = type, .x = x, .x_count = x_count, .y = y,
               .y_count = y_count, .root = root, .counts = counts, .counts_length = counts_length)

WEFT_OPERATION(weft_scatter,
               (const void* x, size_t x_count, void* y, size_t y_count, weft_data_type type,
                const size_t* counts, size_t counts_length, int32_t root),
               .operation = WEFT_SCATTER, .type = type, .x = x, .x_count = x_count, .y = y,
               .y_count = y_count, .root = root, .counts = counts, .counts_length = counts_length)

WEFT_OPERATION(weft_alltoall, (const void* x, void* y, size_t count, weft_data_type type),
               .operation = WEFT_ALLTOALL, .type = type, .x = x, .x_count = count, .y = y,
               .y_count = count)

WEFT_OPERATION(weft_alltoallv,
               (const void* x, size_t x_count, void* y, size_t y_count, weft_data_type type,
                const size_t* send_counts, const size_t* receive_counts, size_t counts_length),
               .operation = WEFT_ALLTOALL, .type = type, .x = x, .x_count = x_count, .y = y,
               .y_count = y_count, .counts = send_counts, .counts_length = counts_length,
               .receive_counts = receive_counts, .receive_counts_length = counts_length)

WEFT_OPERATION(weft_send, (const void* x, size_t count, weft_data_type type, int32_t to),
               .operation = WEFT_SEND, .type = type, .x = x, .x_count = count, .peer = to)

WEFT_OPERATION(weft_recv, (void* y, size_t count, weft_data_type type, int32_t from),
               .operation = WEFT_SEND, .type = type, .y = y, .y_count = count, .peer = from,
               .receives = 1)

WEFT_OPERATION(weft_pair_average,
               (const void* x, void* y, size_t count, weft_data_type type, int32_t peer,
                double self_weight, double pair_weight),
               .operation = WEFT_PAIR_AVERAGE, .type = type, .x = x, .x_count = count, .y = y,
               .y_count = count, .peer = peer, .has_pair_weights = 1, .self_weight = self_weight,
               .pair_weight = pair_weight)

WEFT_OPERATION(weft_group_average,
               (const void* x, void* y, size_t count, weft_data_type type, const int32_t* ranks,
                size_t ranks_length),
               .operation = WEFT_GROUP_AVERAGE, .type = type, .x = x, .x_count = count, .y = y,
               .y_count = count, .group = ranks, .group_length = ranks_length)

#pragma GCC diagnostic pop
#undef WEFT_MORE
#undef WEFT_OPERATION
