// named_test: operations by name of the C API, and bad calls of them. The ranks are those of the
// launcher (`weft run -n 4 -- named_test`), or with an argument that many threads of this program.
#include "tests/c/job.h"
#include "tests/c/operations.h"

enum { kTensors = 20 };

static weft_request sum_of(const float* x, float* y) {
  return (weft_request){.size = sizeof(weft_request),
                        .operation = WEFT_ALLREDUCE,
                        .type = WEFT_F32,
                        .x = x,
                        .x_count = kCount,
                        .y = y,
                        .y_count = kCount,
                        .op = WEFT_SUM};
}

static void check_sum(const struct ranks* all, const float* y) {
  for (size_t i = 0; i < kCount; ++i) {
    float expected = 0;
    for (int32_t rank = 0; rank < all->size; ++rank) expected += value_of(rank, i);
    CHECK(is_near(y[i], expected));
  }
}

// Each rank begins with another tensor.
static void test_any_order(const struct ranks* all, weft_named* named) {
  float x[kCount], y[kTensors][kCount];
  weft_handle* handles[kTensors];
  fill(x, kCount, all->rank);
  for (int round = 0; round < 3; ++round) {
    memset(y, 0, sizeof(y));
    for (int k = 0; k < kTensors; ++k) {
      const int tensor = (k + 7 * all->rank + round) % kTensors;
      char name[32];
      snprintf(name, sizeof(name), "layer%d", tensor);
      const weft_request request = sum_of(x, y[tensor]);
      OK(weft_named_start(named, name, &request, 0, &handles[k]));
    }
    for (int k = 0; k < kTensors; ++k) OK(finish(handles[k]));
    for (int tensor = 0; tensor < kTensors; ++tensor) check_sum(all, y[tensor]);
  }
  weft_named_usage usage = {.size = sizeof(usage)};
  OK(weft_named_get_usage(named, &usage));
  CHECK(usage.submitted == 3 * kTensors && usage.pending == 0 && usage.cache_hits > 0);
  CHECK(usage.piece_bytes == 4096);
}

static void test_groups(const struct ranks* all, weft_named* named) {
  float x[kCount], y[kTensors][kCount];
  weft_request requests[kTensors];
  weft_handle* handle = NULL;
  fill(x, kCount, all->rank);
  for (int k = 0; k < kTensors; ++k) requests[k] = sum_of(x, y[k]);
  OK(weft_named_start_group(named, "group", requests, kTensors, 1, &handle));
  OK(finish(handle));
  for (int k = 0; k < kTensors; ++k) check_sum(all, y[k]);
}

// The requests of a program that was compiled with an older version, in which they end at `op`.
static void test_groups_of_older_programs(const struct ranks* all, weft_named* named) {
  enum { kOlder = offsetof(weft_request, op) };
  float x[kCount], y[kTensors][kCount];
  _Alignas(weft_request) unsigned char older[kTensors][kOlder];
  weft_handle* handle = NULL;
  fill(x, kCount, all->rank);
  for (int k = 0; k < kTensors; ++k) {
    weft_request request = sum_of(x, y[k]);
    request.size = kOlder;
    memcpy(older[k], &request, kOlder);
  }
  const weft_request* requests = (const weft_request*)older;
  OK(weft_named_start_group(named, "older", requests, kTensors, 0, &handle));
  OK(finish(handle));
  for (int k = 0; k < kTensors; ++k) check_sum(all, y[k]);
  weft_request two[2] = {sum_of(x, y[0]), sum_of(x, y[1])};
  two[1].size = kOlder;
  INVALID(weft_named_start_group(named, "older", two, 2, 0, &handle), "requests->size differs");
}

static void test_neighbors_and_join(const struct ranks* all, weft_named* named) {
  float x = (float)all->rank, y = 0;
  weft_request average = {.size = sizeof(average),
                          .operation = WEFT_NEIGHBOR_ALLREDUCE,
                          .type = WEFT_F32,
                          .x = &x,
                          .x_count = 1,
                          .y = &y,
                          .y_count = 1};
  weft_graph* ring = NULL;
  OK(weft_graph_make("ring:style=2", all->size, &ring));
  OK(weft_named_set_graph(named, ring, 0));
  OK(weft_graph_free(ring));
  OK(weft_named_run(named, "average", &average, 0));
  CHECK(is_near(y, (all->rank + (all->rank + all->size - 1) % all->size) / 2.0));
  int32_t last = -1;
  OK(weft_named_join(named, &last));
  CHECK(last >= 0 && last < all->size);
}

// Tensors of one size and two shapes.
static void test_shapes(const struct ranks* all, weft_named* named) {
  float x[kCount] = {0}, y[kCount];
  const size_t shape[] = {all->rank == 0 ? 1 : kCount, all->rank == 0 ? kCount : 1};
  weft_request request = sum_of(x, y);
  request.shape = shape;
  request.dimensions = 2;
  CHECK(weft_named_run(named, "shape", &request, 0) == WEFT_MISMATCH);
  request.dimensions = 0;
  OK(weft_named_run(named, "shape", &request, 0));
}

static void test_errors(const struct ranks* all, weft_named* named) {
  float x[kCount] = {0}, y[kCount];
  const weft_request request = sum_of(x, y);
  weft_handle* handle = (weft_handle*)&handle;
  INVALID(weft_named_start(named, "", &request, 0, &handle), "needs a name");
  CHECK(handle == NULL);
  INVALID(weft_named_start(named, NULL, &request, 0, &handle), "name is NULL");
  INVALID(weft_named_start(named, "a", NULL, 0, &handle), "request is NULL");
  INVALID(weft_named_start(named, "a", &request, 0, NULL), "handle is NULL");
  INVALID(weft_named_start_group(named, "a", &request, 0, 0, &handle), "a group needs");
  INVALID(weft_named_join(named, NULL), "last is NULL");
  INVALID(weft_named_set_graph(named, NULL, 0), "graph is NULL");
  weft_request wrong = request;
  wrong.y_count = 3;
  INVALID(weft_named_run(named, "a", &wrong, 0), "output");
  wrong = request;
  wrong.dimensions = 2;
  INVALID(weft_named_run(named, "a", &wrong, 0), "shape");
  const weft_named_options options = {.size = sizeof(options), .stall_ms = -1};
  weft_named* other = (weft_named*)&other;
  INVALID(weft_context_named(all->context, &options, &other), "stall_ms");
  CHECK(other == NULL);
}

static void test_all(weft_context* context) {
  const struct ranks all = ranks_of(context);
  const weft_named_options options = {
      .size = sizeof(options), .cache_capacity = 64, .piece_bytes = 4096};
  weft_named* named = NULL;
  OK(weft_context_named(context, &options, &named));
  test_any_order(&all, named);
  test_groups(&all, named);
  test_groups_of_older_programs(&all, named);
  test_neighbors_and_join(&all, named);
  if (all.size > 1) test_shapes(&all, named);
  test_errors(&all, named);
  OK(weft_named_end(named));
  const weft_request barrier = {.size = sizeof(barrier), .operation = WEFT_BARRIER};
  INVALID(weft_named_run(named, "late", &barrier, 0), "ended");
  OK(weft_named_free(named));
  INVALID(weft_named_run(named, "late", &barrier, 0), "named is no weft_named: it was freed");
}

int main(int argc, char** argv) {
  return run_test(argc, argv, test_all);
}
