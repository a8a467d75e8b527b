// errors_test: what bad calls of contexts and operations lead to. A wrong argument is an error of
// the call alone; afterwards the context works.
#include <stdatomic.h>

#include "tests/c/job.h"

static weft_request sum_of(const float* x, float* y) {
  const weft_request request = {.size = sizeof(request),
                                .operation = WEFT_ALLREDUCE,
                                .type = WEFT_F32,
                                .x = x,
                                .x_count = 1,
                                .y = y,
                                .y_count = 1};
  return request;
}

// Structs of other versions, and members that no version knows.
static void bad_requests(weft_context* context) {
  float x = 3, y = 0;
  weft_request request = sum_of(&x, &y);
  const size_t wrong[] = {0, 1, 12, 5000, (size_t)-8};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); ++i) {
    request.size = wrong[i];
    INVALID(weft_run(context, &request), "weft_run: request->size is");
  }
  request = sum_of(&x, &y);
  request.size = offsetof(weft_request, op);  // an older version, which ended here: the op is sum
  request.op = 99;
  OK(weft_run(context, &request));
  CHECK(y == 6);
  struct {
    weft_request known;
    int64_t newer;
  } large = {.known = sum_of(&x, &y)};
  large.known.size = sizeof(large);
  OK(weft_run(context, &large.known));
  large.newer = 1;
  INVALID(weft_run(context, &large.known), "weft_run: request is of a newer version");

  request = sum_of(&x, &y);
  request.operation = 0;
  INVALID(weft_run(context, &request), "operation is 0, which is no operation");
  request.operation = 256 + WEFT_ALLREDUCE;
  INVALID(weft_run(context, &request), "operation is 259");
  request = sum_of(&x, &y);
  request.type = 15;
  INVALID(weft_run(context, &request), "type is 15, which is no data type");
  request = sum_of(&x, &y);
  request.op = -1;
  INVALID(weft_run(context, &request), "op is -1, which is no operator");
  request = sum_of(&x, &y);
  request.algorithm = 10;
  INVALID(weft_run(context, &request), "algorithm is 10, which is no algorithm");
  request = sum_of(&x, &y);
  request.compression = 60;
  INVALID(weft_run(context, &request), "compression is 60, which is no compression");
  request = sum_of(&x, &y);
  request.operation = WEFT_PAIR_AVERAGE;
  request.pair_weight = 0.5;
  INVALID(weft_run(context, &request), "has_pair_weights is 0");
  request.operation = WEFT_SEND;
  request.receives = 2;
  INVALID(weft_run(context, &request), "receives is 2");
  INVALID(weft_run(context, NULL), "weft_run: request is NULL");
  weft_handle* handle = (weft_handle*)&handle;
  request.operation = 17;
  INVALID(weft_start(context, &request, &handle), "weft_start: operation is 17");
  CHECK(handle == NULL);
  request = sum_of(&x, &y);
  INVALID(weft_start(context, &request, NULL), "weft_start: handle is NULL");
}

static void bad_memory(weft_context* context) {
  float x[4] = {1, 2, 3, 4}, y[4];
  const size_t minus = (size_t)-1;
  INVALID(weft_allreduce(context, NULL, y, 4, WEFT_F32, WEFT_SUM), "input is null");
  INVALID(weft_allreduce(context, x, NULL, 4, WEFT_F32, WEFT_SUM), "output is null");
  INVALID(weft_allreduce(context, x, y, minus, WEFT_F32, WEFT_SUM), "cannot have");
  INVALID(weft_allreduce(context, x, x + 1, 3, WEFT_F32, WEFT_SUM), "overlap");
  INVALID(weft_allreduce(context, x, y, 4, WEFT_I32, WEFT_AVERAGE), "i32");
  INVALID(weft_allreduce(context, x, y, 4, 77, WEFT_SUM), "weft_allreduce: type is 77");
  INVALID(weft_allreduce(context, x, y, 4, WEFT_F32, 8), "op is 8");
  INVALID(weft_neighbor_allreduce(context, x, y, 2, WEFT_I64, NULL), "i64");
  INVALID(weft_send(context, x, minus, WEFT_F32, 1), "cannot have");
  INVALID(weft_recv(context, NULL, 4, WEFT_F32, 1), "null");
  const size_t counts[2] = {2, minus}, right[2] = {2, 2};
  INVALID(weft_allgather(context, x, 2, y, 4, WEFT_F32, counts, 2), "cannot have");
  INVALID(weft_allgather(context, x, 2, y, 4, WEFT_F32, right, 1), "1 counts");
  INVALID(weft_allgather(context, x, 2, y, 4, WEFT_F32, NULL, 2), "counts is NULL");
  INVALID(weft_allgather(context, x, 2, y, 4, WEFT_F32, right, minus),
          "counts has 18446744073709551615");
  INVALID(weft_allgather(context, x, 2, y, 3, WEFT_F32, NULL, 0), "3");
  INVALID(weft_alltoallv(context, x, 4, y, 4, WEFT_F32, right, NULL, 2), "receive_counts is NULL");
  INVALID(weft_neighbor_allgather(context, x, 2, y, 4, WEFT_F32, right, 2), "2 counts");
}

static void bad_ranks(weft_context* context) {
  float x[2] = {1, 2}, y[2];
  int32_t rank = -1, value = 0;
  OK(weft_context_rank(context, &rank));
  const int32_t outside[] = {0, 2}, twice[] = {0, 1, 1}, other[] = {1 - rank};
  INVALID(weft_broadcast(context, x, y, 2, WEFT_F32, 2), "root");
  INVALID(weft_broadcast(context, x, y, 2, WEFT_F32, -1), "root");
  INVALID(weft_reduce(context, x, y, 2, WEFT_F32, WEFT_SUM, 7), "root");
  INVALID(weft_gather(context, x, 1, y, 2, WEFT_F32, NULL, 0, INT32_MAX), "root");
  INVALID(weft_scatter(context, x, 2, y, 1, WEFT_F32, NULL, 0, INT32_MIN), "root");
  INVALID(weft_send(context, x, 2, WEFT_F32, rank), "another of the ranks");
  INVALID(weft_recv(context, y, 2, WEFT_F32, 2), "rank 2");
  INVALID(weft_has_message(context, 2, &value), "rank 2");
  INVALID(weft_has_message(context, 1 - rank, NULL), "there is NULL");
  INVALID(weft_pair_average(context, x, y, 2, WEFT_F32, -1, 0.5, 0.5), "rank -1");
  INVALID(weft_group_average(context, x, y, 2, WEFT_F32, outside, 2), "rank 2");
  INVALID(weft_group_average(context, x, y, 2, WEFT_F32, twice, 3), "twice");
  INVALID(weft_group_average(context, x, y, 2, WEFT_F32, other, 1), "not in its group");
  INVALID(weft_group_average(context, x, y, 2, WEFT_F32, NULL, 2), "group is NULL");
  INVALID(weft_group_average(context, x, y, 2, WEFT_F32, other, (size_t)-1), "group has");
  INVALID(weft_context_machine_of(context, 2, &value), "rank is 2");
  INVALID(weft_context_rank(context, NULL), "weft_context_rank: rank is NULL");
  INVALID(weft_context_local_rank(context, NULL), "local_rank is NULL");
  INVALID(weft_context_placement(context, NULL), "placement is NULL");
  INVALID(weft_context_usage(context, NULL), "usage is NULL");
  INVALID(weft_context_explain(context, NULL), "text is NULL");
  INVALID(weft_flight(NULL), "text is NULL");
  INVALID(weft_context_split(context, 0, 0, NULL), "made is NULL");
  INVALID(weft_context_shrink(context, NULL), "made is NULL");
  INVALID(weft_context_members(context, NULL, 0, NULL), "count is NULL");
  size_t count = 0;
  INVALID(weft_context_admit(context, NULL, 0, NULL, 0, NULL), "count is NULL");
  INVALID(weft_context_admit(context, NULL, 1, NULL, 0, &count), "state is NULL");
  INVALID(weft_context_admit(context, NULL, 0, NULL, 0, &count), "WEFT_ON_DEATH=skip");
}

static void bad_weights(weft_context* context) {
  float x[2] = {1, 2}, y[2];
  const weft_peer peer = {7, 0.5};
  weft_weights weights = {.size = sizeof(weights), .self_weight = 0.5};
  INVALID(weft_neighbor_allreduce(context, x, y, 2, WEFT_F32, &weights), "has_self_weight is 0");
  weights.has_self_weight = 1;
  weights.source_count = 1;
  INVALID(weft_neighbor_allreduce(context, x, y, 2, WEFT_F32, &weights),
          "weights->sources is NULL");
  weights.sources = &peer;
  INVALID(weft_neighbor_allreduce(context, x, y, 2, WEFT_F32, &weights), "7");
  weights.source_count = (size_t)-1;
  INVALID(weft_neighbor_allreduce(context, x, y, 2, WEFT_F32, &weights), "weights->sources has");
  weights.sources = NULL;
  weights.source_count = 0;
  weights.destinations = &(weft_peer){0, 0.4};
  weights.destination_count = 0;
  weights.is_push_sum = 1;
  INVALID(weft_neighbor_allreduce(context, x, y, 2, WEFT_F32, &weights), "must sum to 1");
  weights.size = 0;
  INVALID(weft_neighbor_allreduce(context, x, y, 2, WEFT_F32, &weights), "weights->size is 0");
  weft_graph* graph = NULL;
  OK(weft_graph_make("ring", 3, &graph));
  INVALID(weft_context_set_graph(context, graph, 0), "3 ranks");
  INVALID(weft_context_set_machine_graph(context, graph, 0), "3 machines");
  INVALID(weft_context_set_graph(context, NULL, 0), "weft_context_set_graph: graph is NULL");
  OK(weft_graph_free(graph));
  INVALID(weft_context_set_graph(context, graph, 0), "graph is no weft_graph");
}

static void all_bad(weft_context* context) {
  bad_requests(context);
  bad_memory(context);
  bad_ranks(context);
  bad_weights(context);
  float x = 1, y = 0;
  OK(weft_allreduce(context, &x, &y, 1, WEFT_F32, WEFT_SUM));
  CHECK(y == 2);
}

// Ranks that do not agree both learn of it, and the error names the other rank.
static void disagree(weft_context* context) {
  int32_t rank = -1;
  float x[2] = {1, 2}, y[2];
  OK(weft_context_rank(context, &rank));
  FAILS(weft_allreduce(context, x, y, rank == 0 ? 1 : 2, WEFT_F32, WEFT_SUM), WEFT_MISMATCH, "");
  CHECK(weft_last_error_rank() == 1 - rank);
  FAILS(weft_barrier(context), WEFT_MISMATCH, "");  // the context has failed
}

static void leave(weft_context* context) {
  int32_t rank = -1;
  OK(weft_context_rank(context, &rank));
  if (rank == 1) return;
  FAILS(weft_barrier(context), WEFT_PEER_LEFT, "rank 1");
  CHECK(weft_last_error_rank() == 1);
}

// Rank 1 leaves a job that goes on without it.
static void go_on(weft_context* context) {
  int32_t rank = -1;
  OK(weft_context_rank(context, &rank));
  if (rank == 1) return;
  float x = 1, y = 0;
  weft_request request = {.size = sizeof(request),
                          .operation = WEFT_ALLREDUCE,
                          .type = WEFT_F32,
                          .x = &x,
                          .x_count = 1,
                          .y = &y,
                          .y_count = 1,
                          .op = WEFT_SUM,
                          .needs_all = 1};
  FAILS(weft_run(context, &request), WEFT_PEER_DIED, "rank 1, which the call needs");
  CHECK(weft_last_error_rank() == 1);
  request.needs_all = 0;
  OK(weft_run(context, &request));
  CHECK(y == 2);
}

static void without_a_context(void) {
  weft_context* context = NULL;
  weft_graph* graph = NULL;
  weft_handle* handle = NULL;
  int32_t rank = 0;
  INVALID(weft_barrier(NULL), "weft_barrier: context is NULL");
  INVALID(weft_barrier_start(NULL, &handle), "weft_barrier_start: context is NULL");
  INVALID(weft_context_close(NULL), "context is NULL");
  INVALID(weft_context_create(NULL, NULL, &context), "config is NULL");
  INVALID(weft_context_from_environment(NULL), "context is NULL");
  INVALID(weft_context_graph((weft_context*)&context, &graph), "context is no weft_context");
  OK(weft_context_free(NULL));
  weft_config* config = NULL;
  weft_store* store = NULL;
  OK(weft_config_new(&config));  // of a job of one rank
  INVALID(weft_context_create(config, NULL, &context), "store is NULL");
  OK(weft_store_open(config, &store));
  OK(weft_context_create(config, store, &context));
  OK(weft_context_close(context));
  OK(weft_context_close(context));  // it is closed
  FAILS(weft_context_rank(context, &rank), WEFT_CLOSED,
        "weft_context_rank: the context was closed");
  FAILS(weft_barrier(context), WEFT_CLOSED, "weft_barrier: the context was closed");
  FAILS(weft_barrier_start(context, &handle), WEFT_CLOSED, "closed");
  FAILS(weft_context_graph(context, &graph), WEFT_CLOSED, "closed");
  OK(weft_context_free(context));
  INVALID(weft_barrier(context), "weft_barrier: context is no weft_context");
  INVALID(weft_context_close(context), "context is no weft_context");
  INVALID(weft_context_free(context), "weft_context_free: context is no weft_context");
  OK(weft_store_free(store));
  OK(weft_config_free(config));
}

int main(void) {
  bound_time(120);
  (void)weft_log_set_level(WEFT_LOG_OFF, WEFT_NO_RANK);
  const char* const quiet[] = {"WEFT_LOG", "off", NULL};
  run_ranks(2, quiet, all_bad);
  run_ranks(2, quiet, disagree);
  run_ranks(2, quiet, leave);
  const char* const skip[] = {"WEFT_LOG", "off", "WEFT_ON_DEATH", "skip", NULL};
  run_ranks(3, skip, go_on);
  without_a_context();
  return 0;
}
