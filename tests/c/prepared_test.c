// prepared_test: operations that are prepared once and run many times.
#include <pthread.h>

#include "tests/c/job.h"

enum { kTimes = 20, kCount = 4 };

static pthread_barrier_t gate;
static void meet(void) {
  (void)pthread_barrier_wait(&gate);
}

static weft_request sum_of(const float* x, float* y) {
  weft_request request = {.size = sizeof(request), .operation = WEFT_ALLREDUCE, .type = WEFT_F32};
  request.x = x;
  request.y = y;
  request.x_count = request.y_count = kCount;
  request.op = WEFT_SUM;
  return request;
}

static int32_t rank_of(const weft_context* context) {
  int32_t rank = -1;
  OK(weft_context_rank(context, &rank));
  return rank;
}

// One rank runs, one starts, and one makes the call without preparing it.
static void run_in_every_way(weft_context* context) {
  const int32_t rank = rank_of(context);
  float x[kCount], y[kCount];
  const weft_request request = sum_of(x, y);
  weft_prepared* sum = NULL;
  OK(weft_prepare(context, &request, &sum));
  for (int time = 0; time < kTimes; ++time) {
    for (int i = 0; i < kCount; ++i) x[i] = (float)(rank + time + i);
    weft_handle* handle = NULL;
    switch ((rank + time) % 3) {
      case 0:
        OK(weft_prepared_run(sum));
        break;
      case 1:
        OK(weft_prepared_start(sum, &handle));
        OK(weft_prepared_wait(sum));
        OK(weft_handle_wait(handle));
        OK(weft_handle_free(handle));
        break;
      default:
        OK(weft_run(context, &request));
    }
    for (int i = 0; i < kCount; ++i) CHECK(y[i] == (float)(3 + 3 * (time + i)));
  }
  OK(weft_prepared_free(sum));
}

static void refuse_what_is_wrong(weft_context* context) {
  float x[kCount] = {0}, y[kCount];
  weft_request request = sum_of(x, y);
  weft_prepared* sum = NULL;
  weft_handle* handle = NULL;
  INVALID(weft_prepare(NULL, &request, &sum), "context is NULL");
  INVALID(weft_prepare(context, NULL, &sum), "request is NULL");
  INVALID(weft_prepare(context, &request, NULL), "prepared is NULL");
  request.y_count = 3;
  INVALID(weft_prepare(context, &request, &sum), "allreduce: the input has 4 elements");
  CHECK(sum == NULL);
  request.y_count = kCount;
  OK(weft_prepare(context, &request, &sum));
  INVALID(weft_prepared_start(sum, NULL), "handle is NULL");
  meet();
  // Rank 0 waits, and rank 1 joins it when it has tried everything.
  if (rank_of(context) == 0) {
    OK(weft_prepared_start(sum, &handle));
    INVALID(weft_prepared_run(sum), "the run that was started last is under way");
    meet();
    OK(weft_prepared_wait(sum));
    OK(weft_handle_free(handle));
  } else {
    meet();
    OK(weft_prepared_run(sum));
  }
  OK(weft_context_close(context));
  FAILS(weft_prepared_run(sum), WEFT_CLOSED, "closed");
  OK(weft_prepared_free(sum));
  INVALID(weft_prepared_run(sum), "prepared is no weft_prepared");
  INVALID(weft_prepared_wait(NULL), "prepared is NULL");
  OK(weft_prepared_free(NULL));
}

int main(void) {
  bound_time(120);
  (void)pthread_barrier_init(&gate, NULL, 2);
  run_ranks(3, NULL, run_in_every_way);
  run_ranks(2, NULL, refuse_what_is_wrong);
  return 0;
}
