// The C API: operations that are started. Each does what the blocking call of its name does, and
// sets *handle to a handle that the caller frees with weft_handle_free(). The call does not wait
// for other ranks. If it fails, *handle is NULL and nothing was started.
#pragma once

#include <weft/c/handle.h>
#include <weft/c/operations.h>

#ifdef __cplusplus
extern "C" {
#endif

// Starts the operation that the request asks for.
WEFT_C_API weft_code weft_start(weft_context* context, const weft_request* request,
                                weft_handle** handle);

WEFT_C_API weft_code weft_neighbor_allreduce_start(weft_context* context, const void* x, void* y,
                                                   size_t count, weft_data_type type,
                                                   const weft_weights* weights,
                                                   weft_handle** handle);
WEFT_C_API weft_code weft_hierarchical_neighbor_allreduce_start(weft_context* context,
                                                                const void* x, void* y,
                                                                size_t count, weft_data_type type,
                                                                const weft_weights* machine_weights,
                                                                weft_handle** handle);
WEFT_C_API weft_code weft_neighbor_allgather_start(weft_context* context, const void* x,
                                                   size_t x_count, void* y, size_t y_count,
                                                   weft_data_type type, const size_t* counts,
                                                   size_t counts_length, weft_handle** handle);
WEFT_C_API weft_code weft_allreduce_start(weft_context* context, const void* x, void* y,
                                          size_t count, weft_data_type type, weft_reduce_op op,
                                          weft_handle** handle);
WEFT_C_API weft_code weft_local_allreduce_start(weft_context* context, const void* x, void* y,
                                                size_t count, weft_data_type type,
                                                weft_reduce_op op, weft_handle** handle);
WEFT_C_API weft_code weft_broadcast_start(weft_context* context, const void* x, void* y,
                                          size_t count, weft_data_type type, int32_t root,
                                          weft_handle** handle);
WEFT_C_API weft_code weft_barrier_start(weft_context* context, weft_handle** handle);
WEFT_C_API weft_code weft_allgather_start(weft_context* context, const void* x, size_t x_count,
                                          void* y, size_t y_count, weft_data_type type,
                                          const size_t* counts, size_t counts_length,
                                          weft_handle** handle);
WEFT_C_API weft_code weft_reduce_scatter_start(weft_context* context, const void* x, size_t x_count,
                                               void* y, size_t y_count, weft_data_type type,
                                               weft_reduce_op op, const size_t* counts,
                                               size_t counts_length, weft_handle** handle);
WEFT_C_API weft_code weft_reduce_start(weft_context* context, const void* x, void* y, size_t count,
                                       weft_data_type type, weft_reduce_op op, int32_t root,
                                       weft_handle** handle);
WEFT_C_API weft_code weft_gather_start(weft_context* context, const void* x, size_t x_count,
                                       void* y, size_t y_count, weft_data_type type,
                                       const size_t* counts, size_t counts_length, int32_t root,
                                       weft_handle** handle);
WEFT_C_API weft_code weft_scatter_start(weft_context* context, const void* x, size_t x_count,
                                        void* y, size_t y_count, weft_data_type type,
                                        const size_t* counts, size_t counts_length, int32_t root,
                                        weft_handle** handle);
WEFT_C_API weft_code weft_alltoall_start(weft_context* context, const void* x, void* y,
                                         size_t count, weft_data_type type, weft_handle** handle);
WEFT_C_API weft_code weft_alltoallv_start(weft_context* context, const void* x, size_t x_count,
                                          void* y, size_t y_count, weft_data_type type,
                                          const size_t* send_counts, const size_t* receive_counts,
                                          size_t counts_length, weft_handle** handle);
WEFT_C_API weft_code weft_send_start(weft_context* context, const void* x, size_t count,
                                     weft_data_type type, int32_t to, weft_handle** handle);
WEFT_C_API weft_code weft_recv_start(weft_context* context, void* y, size_t count,
                                     weft_data_type type, int32_t from, weft_handle** handle);
WEFT_C_API weft_code weft_pair_average_start(weft_context* context, const void* x, void* y,
                                             size_t count, weft_data_type type, int32_t peer,
                                             double self_weight, double pair_weight,
                                             weft_handle** handle);
WEFT_C_API weft_code weft_group_average_start(weft_context* context, const void* x, void* y,
                                              size_t count, weft_data_type type,
                                              const int32_t* ranks, size_t ranks_length,
                                              weft_handle** handle);

#ifdef __cplusplus
}
#endif
