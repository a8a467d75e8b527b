// operations_some: operations of some ranks only.
// Each operation makes one request, which the blocking and the starting function share.
#include "bindings/c/run.h"

namespace {

using weft::c::request_of;
using weft::c::run;
using weft::c::start;

weft_request send_request(const void* x, size_t count, weft_data_type type, int32_t to) {
  weft_request request = request_of(WEFT_SEND, type, x, count, nullptr, 0);
  request.peer = to;
  return request;
}
weft_request recv_request(void* y, size_t count, weft_data_type type, int32_t from) {
  weft_request request = request_of(WEFT_SEND, type, nullptr, 0, y, count);
  request.peer = from;
  request.receives = 1;
  return request;
}
weft_request pair_average_request(const void* x, void* y, size_t count, weft_data_type type,
                                  int32_t peer, double self_weight, double pair_weight) {
  weft_request request = request_of(WEFT_PAIR_AVERAGE, type, x, count, y, count);
  request.peer = peer;
  request.has_pair_weights = 1;
  request.self_weight = self_weight;
  request.pair_weight = pair_weight;
  return request;
}
weft_request group_average_request(const void* x, void* y, size_t count, weft_data_type type,
                                   const int32_t* ranks, size_t ranks_length) {
  weft_request request = request_of(WEFT_GROUP_AVERAGE, type, x, count, y, count);
  request.group = ranks;
  request.group_length = ranks_length;
  return request;
}

}  // namespace

weft_code weft_send(weft_context* context, const void* x, size_t count, weft_data_type type,
                    int32_t to) {
  return run(__func__, context, send_request(x, count, type, to));
}
weft_code weft_send_start(weft_context* context, const void* x, size_t count, weft_data_type type,
                          int32_t to, weft_handle** handle) {
  return start(__func__, context, send_request(x, count, type, to), handle);
}

weft_code weft_recv(weft_context* context, void* y, size_t count, weft_data_type type,
                    int32_t from) {
  return run(__func__, context, recv_request(y, count, type, from));
}
weft_code weft_recv_start(weft_context* context, void* y, size_t count, weft_data_type type,
                          int32_t from, weft_handle** handle) {
  return start(__func__, context, recv_request(y, count, type, from), handle);
}

weft_code weft_pair_average(weft_context* context, const void* x, void* y, size_t count,
                            weft_data_type type, int32_t peer, double self_weight,
                            double pair_weight) {
  return run(__func__, context,
             pair_average_request(x, y, count, type, peer, self_weight, pair_weight));
}
weft_code weft_pair_average_start(weft_context* context, const void* x, void* y, size_t count,
                                  weft_data_type type, int32_t peer, double self_weight,
                                  double pair_weight, weft_handle** handle) {
  return start(__func__, context,
               pair_average_request(x, y, count, type, peer, self_weight, pair_weight), handle);
}

weft_code weft_group_average(weft_context* context, const void* x, void* y, size_t count,
                             weft_data_type type, const int32_t* ranks, size_t ranks_length) {
  return run(__func__, context, group_average_request(x, y, count, type, ranks, ranks_length));
}
weft_code weft_group_average_start(weft_context* context, const void* x, void* y, size_t count,
                                   weft_data_type type, const int32_t* ranks, size_t ranks_length,
                                   weft_handle** handle) {
  return start(__func__, context, group_average_request(x, y, count, type, ranks, ranks_length),
               handle);
}
