// operations_neighbor: operations between neighbors of the graph.
// Each operation makes one request, which the blocking and the starting function share.
#include "bindings/c/run.h"

namespace {

using weft::c::request_of;
using weft::c::run;
using weft::c::start;

weft_request neighbor_allreduce_request(const void* x, void* y, size_t count, weft_data_type type,
                                        const weft_weights* weights) {
  weft_request request = request_of(WEFT_NEIGHBOR_ALLREDUCE, type, x, count, y, count);
  request.weights = weights;
  return request;
}
weft_request hierarchical_neighbor_allreduce_request(const void* x, void* y, size_t count,
                                                     weft_data_type type,
                                                     const weft_weights* machine_weights) {
  weft_request request = request_of(WEFT_HIERARCHICAL_NEIGHBOR_ALLREDUCE, type, x, count, y, count);
  request.weights = machine_weights;
  return request;
}
weft_request neighbor_allgather_request(const void* x, size_t x_count, void* y, size_t y_count,
                                        weft_data_type type, const size_t* counts,
                                        size_t counts_length) {
  weft_request request = request_of(WEFT_NEIGHBOR_ALLGATHER, type, x, x_count, y, y_count);
  request.counts = counts;
  request.counts_length = counts_length;
  return request;
}

}  // namespace

weft_code weft_neighbor_allreduce(weft_context* context, const void* x, void* y, size_t count,
                                  weft_data_type type, const weft_weights* weights) {
  return run(__func__, context, neighbor_allreduce_request(x, y, count, type, weights));
}
weft_code weft_neighbor_allreduce_start(weft_context* context, const void* x, void* y, size_t count,
                                        weft_data_type type, const weft_weights* weights,
                                        weft_handle** handle) {
  return start(__func__, context, neighbor_allreduce_request(x, y, count, type, weights), handle);
}

weft_code weft_hierarchical_neighbor_allreduce(weft_context* context, const void* x, void* y,
                                               size_t count, weft_data_type type,
                                               const weft_weights* machine_weights) {
  return run(__func__, context,
             hierarchical_neighbor_allreduce_request(x, y, count, type, machine_weights));
}
weft_code weft_hierarchical_neighbor_allreduce_start(weft_context* context, const void* x, void* y,
                                                     size_t count, weft_data_type type,
                                                     const weft_weights* machine_weights,
                                                     weft_handle** handle) {
  return start(__func__, context,
               hierarchical_neighbor_allreduce_request(x, y, count, type, machine_weights), handle);
}

weft_code weft_neighbor_allgather(weft_context* context, const void* x, size_t x_count, void* y,
                                  size_t y_count, weft_data_type type, const size_t* counts,
                                  size_t counts_length) {
  return run(__func__, context,
             neighbor_allgather_request(x, x_count, y, y_count, type, counts, counts_length));
}
weft_code weft_neighbor_allgather_start(weft_context* context, const void* x, size_t x_count,
                                        void* y, size_t y_count, weft_data_type type,
                                        const size_t* counts, size_t counts_length,
                                        weft_handle** handle) {
  return start(__func__, context,
               neighbor_allgather_request(x, x_count, y, y_count, type, counts, counts_length),
               handle);
}
