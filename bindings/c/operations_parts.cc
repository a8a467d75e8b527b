// operations_parts: operations in which each rank has a part of its own.
// Each operation makes one request, which the blocking and the starting function share.
#include "bindings/c/run.h"

namespace {

using weft::c::request_of;
using weft::c::run;
using weft::c::start;

weft_request allgather_request(const void* x, size_t x_count, void* y, size_t y_count,
                               weft_data_type type, const size_t* counts, size_t counts_length) {
  weft_request request = request_of(WEFT_ALLGATHER, type, x, x_count, y, y_count);
  request.counts = counts;
  request.counts_length = counts_length;
  return request;
}
weft_request reduce_scatter_request(const void* x, size_t x_count, void* y, size_t y_count,
                                    weft_data_type type, weft_reduce_op op, const size_t* counts,
                                    size_t counts_length) {
  weft_request request = request_of(WEFT_REDUCE_SCATTER, type, x, x_count, y, y_count);
  request.op = op;
  request.counts = counts;
  request.counts_length = counts_length;
  return request;
}
weft_request gather_request(const void* x, size_t x_count, void* y, size_t y_count,
                            weft_data_type type, const size_t* counts, size_t counts_length,
                            int32_t root) {
  weft_request request = request_of(WEFT_GATHER, type, x, x_count, y, y_count);
  request.root = root;
  request.counts = counts;
  request.counts_length = counts_length;
  return request;
}
weft_request scatter_request(const void* x, size_t x_count, void* y, size_t y_count,
                             weft_data_type type, const size_t* counts, size_t counts_length,
                             int32_t root) {
  weft_request request = request_of(WEFT_SCATTER, type, x, x_count, y, y_count);
  request.root = root;
  request.counts = counts;
  request.counts_length = counts_length;
  return request;
}
weft_request alltoall_request(const void* x, void* y, size_t count, weft_data_type type) {
  return request_of(WEFT_ALLTOALL, type, x, count, y, count);
}
weft_request alltoallv_request(const void* x, size_t x_count, void* y, size_t y_count,
                               weft_data_type type, const size_t* send_counts,
                               const size_t* receive_counts, size_t counts_length) {
  weft_request request = request_of(WEFT_ALLTOALL, type, x, x_count, y, y_count);
  request.counts = send_counts;
  request.counts_length = counts_length;
  request.receive_counts = receive_counts;
  request.receive_counts_length = counts_length;
  return request;
}

}  // namespace

weft_code weft_allgather(weft_context* context, const void* x, size_t x_count, void* y,
                         size_t y_count, weft_data_type type, const size_t* counts,
                         size_t counts_length) {
  return run(__func__, context,
             allgather_request(x, x_count, y, y_count, type, counts, counts_length));
}
weft_code weft_allgather_start(weft_context* context, const void* x, size_t x_count, void* y,
                               size_t y_count, weft_data_type type, const size_t* counts,
                               size_t counts_length, weft_handle** handle) {
  return start(__func__, context,
               allgather_request(x, x_count, y, y_count, type, counts, counts_length), handle);
}

weft_code weft_reduce_scatter(weft_context* context, const void* x, size_t x_count, void* y,
                              size_t y_count, weft_data_type type, weft_reduce_op op,
                              const size_t* counts, size_t counts_length) {
  return run(__func__, context,
             reduce_scatter_request(x, x_count, y, y_count, type, op, counts, counts_length));
}
weft_code weft_reduce_scatter_start(weft_context* context, const void* x, size_t x_count, void* y,
                                    size_t y_count, weft_data_type type, weft_reduce_op op,
                                    const size_t* counts, size_t counts_length,
                                    weft_handle** handle) {
  return start(__func__, context,
               reduce_scatter_request(x, x_count, y, y_count, type, op, counts, counts_length),
               handle);
}

weft_code weft_gather(weft_context* context, const void* x, size_t x_count, void* y, size_t y_count,
                      weft_data_type type, const size_t* counts, size_t counts_length,
                      int32_t root) {
  return run(__func__, context,
             gather_request(x, x_count, y, y_count, type, counts, counts_length, root));
}
weft_code weft_gather_start(weft_context* context, const void* x, size_t x_count, void* y,
                            size_t y_count, weft_data_type type, const size_t* counts,
                            size_t counts_length, int32_t root, weft_handle** handle) {
  return start(__func__, context,
               gather_request(x, x_count, y, y_count, type, counts, counts_length, root), handle);
}

weft_code weft_scatter(weft_context* context, const void* x, size_t x_count, void* y,
                       size_t y_count, weft_data_type type, const size_t* counts,
                       size_t counts_length, int32_t root) {
  return run(__func__, context,
             scatter_request(x, x_count, y, y_count, type, counts, counts_length, root));
}
weft_code weft_scatter_start(weft_context* context, const void* x, size_t x_count, void* y,
                             size_t y_count, weft_data_type type, const size_t* counts,
                             size_t counts_length, int32_t root, weft_handle** handle) {
  return start(__func__, context,
               scatter_request(x, x_count, y, y_count, type, counts, counts_length, root), handle);
}

weft_code weft_alltoall(weft_context* context, const void* x, void* y, size_t count,
                        weft_data_type type) {
  return run(__func__, context, alltoall_request(x, y, count, type));
}
weft_code weft_alltoall_start(weft_context* context, const void* x, void* y, size_t count,
                              weft_data_type type, weft_handle** handle) {
  return start(__func__, context, alltoall_request(x, y, count, type), handle);
}

weft_code weft_alltoallv(weft_context* context, const void* x, size_t x_count, void* y,
                         size_t y_count, weft_data_type type, const size_t* send_counts,
                         const size_t* receive_counts, size_t counts_length) {
  return run(
      __func__, context,
      alltoallv_request(x, x_count, y, y_count, type, send_counts, receive_counts, counts_length));
}
weft_code weft_alltoallv_start(weft_context* context, const void* x, size_t x_count, void* y,
                               size_t y_count, weft_data_type type, const size_t* send_counts,
                               const size_t* receive_counts, size_t counts_length,
                               weft_handle** handle) {
  return start(
      __func__, context,
      alltoallv_request(x, x_count, y, y_count, type, send_counts, receive_counts, counts_length),
      handle);
}
