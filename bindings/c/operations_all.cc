// operations_all: operations of all ranks that combine, copy or wait.
// Each operation makes one request, which the blocking and the starting function share.
#include "bindings/c/run.h"

namespace {

using weft::c::request_of;
using weft::c::run;
using weft::c::start;

weft_request allreduce_request(const void* x, void* y, size_t count, weft_data_type type,
                               weft_reduce_op op) {
  weft_request request = request_of(WEFT_ALLREDUCE, type, x, count, y, count);
  request.op = op;
  return request;
}
weft_request local_allreduce_request(const void* x, void* y, size_t count, weft_data_type type,
                                     weft_reduce_op op) {
  weft_request request = request_of(WEFT_LOCAL_ALLREDUCE, type, x, count, y, count);
  request.op = op;
  return request;
}
weft_request broadcast_request(const void* x, void* y, size_t count, weft_data_type type,
                               int32_t root) {
  weft_request request = request_of(WEFT_BROADCAST, type, x, count, y, count);
  request.root = root;
  return request;
}
weft_request barrier_request() {
  return request_of(WEFT_BARRIER, WEFT_U8, nullptr, 0, nullptr, 0);
}
weft_request reduce_request(const void* x, void* y, size_t count, weft_data_type type,
                            weft_reduce_op op, int32_t root) {
  weft_request request = request_of(WEFT_REDUCE, type, x, count, y, count);
  request.op = op;
  request.root = root;
  return request;
}

}  // namespace

weft_code weft_allreduce(weft_context* context, const void* x, void* y, size_t count,
                         weft_data_type type, weft_reduce_op op) {
  return run(__func__, context, allreduce_request(x, y, count, type, op));
}
weft_code weft_allreduce_start(weft_context* context, const void* x, void* y, size_t count,
                               weft_data_type type, weft_reduce_op op, weft_handle** handle) {
  return start(__func__, context, allreduce_request(x, y, count, type, op), handle);
}

weft_code weft_local_allreduce(weft_context* context, const void* x, void* y, size_t count,
                               weft_data_type type, weft_reduce_op op) {
  return run(__func__, context, local_allreduce_request(x, y, count, type, op));
}
weft_code weft_local_allreduce_start(weft_context* context, const void* x, void* y, size_t count,
                                     weft_data_type type, weft_reduce_op op, weft_handle** handle) {
  return start(__func__, context, local_allreduce_request(x, y, count, type, op), handle);
}

weft_code weft_broadcast(weft_context* context, const void* x, void* y, size_t count,
                         weft_data_type type, int32_t root) {
  return run(__func__, context, broadcast_request(x, y, count, type, root));
}
weft_code weft_broadcast_start(weft_context* context, const void* x, void* y, size_t count,
                               weft_data_type type, int32_t root, weft_handle** handle) {
  return start(__func__, context, broadcast_request(x, y, count, type, root), handle);
}

weft_code weft_barrier(weft_context* context) {
  return run(__func__, context, barrier_request());
}
weft_code weft_barrier_start(weft_context* context, weft_handle** handle) {
  return start(__func__, context, barrier_request(), handle);
}

weft_code weft_reduce(weft_context* context, const void* x, void* y, size_t count,
                      weft_data_type type, weft_reduce_op op, int32_t root) {
  return run(__func__, context, reduce_request(x, y, count, type, op, root));
}
weft_code weft_reduce_start(weft_context* context, const void* x, void* y, size_t count,
                            weft_data_type type, weft_reduce_op op, int32_t root,
                            weft_handle** handle) {
  return start(__func__, context, reduce_request(x, y, count, type, op, root), handle);
}
