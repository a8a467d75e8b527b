// handles_test: started operations. The ranks are threads. They meet at gates of the test, so that
// an operation is known to be pending or done.
#include <pthread.h>
#include <stdatomic.h>

#include "tests/c/job.h"

static pthread_barrier_t gate;
static void meet(void) {
  (void)pthread_barrier_wait(&gate);
}

static int32_t rank_of(const weft_context* context) {
  int32_t rank = -1;
  OK(weft_context_rank(context, &rank));
  return rank;
}

// What a callback was told.
struct told {
  atomic_int calls;
  weft_code code;
  int32_t rank;
  char text[200];
};
static void note(void* user, weft_code code, const char* text) {
  struct told* told = user;
  told->code = code;
  told->rank = weft_last_error_rank();
  (void)snprintf(told->text, sizeof(told->text), "%s", text);
  atomic_fetch_add(&told->calls, 1);
}
// The callback is called after the operation is done, by another thread.
static void await(struct told* told, int calls) {
  while (atomic_load(&told->calls) < calls) (void)sched_yield();
}

// Rank 0 waits for a message that rank 1 sends only when rank 0 has waited in every way.
static void wait_in_every_way(weft_context* context) {
  float value = 7;
  if (rank_of(context) == 1) {
    meet();
    OK(weft_send(context, &value, 1, WEFT_F32, 0));
    meet();
    return;
  }
  value = 0;
  weft_handle* handle = NULL;
  struct told first = {.calls = 0}, second = {.calls = 0};
  int done = 1;
  OK(weft_recv_start(context, &value, 1, WEFT_F32, 1, &handle));
  OK(weft_handle_test(handle, &done));
  CHECK(done == 0);
  FAILS(weft_handle_wait_for(handle, 0), WEFT_TIMED_OUT,
        "weft_handle_wait_for: the operation is not");
  FAILS(weft_handle_wait_for(handle, 20), WEFT_TIMED_OUT, "not done after 20 ms");
  INVALID(weft_handle_wait_for(handle, -1), "timeout_ms is -1");
  OK(weft_handle_then(handle, note, &first));
  CHECK(atomic_load(&first.calls) == 0);
  meet();
  OK(weft_handle_wait_for(handle, INT64_MAX));
  CHECK(value == 7);
  OK(weft_handle_wait(handle));  // the same again
  OK(weft_handle_wait_for(handle, 0));
  OK(weft_handle_test(handle, &done));
  CHECK(done == 1);
  OK(weft_handle_then(handle, note, &second));  // already done
  await(&first, 1);
  await(&second, 1);
  CHECK(first.code == WEFT_OK && first.text[0] == '\0' && second.code == WEFT_OK);
  OK(weft_handle_free(handle));
  INVALID(weft_handle_wait(handle), "weft_handle_wait: handle is no weft_handle");
  INVALID(weft_handle_free(handle), "weft_handle_free: handle is no weft_handle");
  OK(weft_handle_free(NULL));
  INVALID(weft_handle_wait(NULL), "handle is NULL");
  INVALID(weft_handle_test(NULL, &done), "handle is NULL");
  meet();
}

// Many operations at once, whose handles are freed before they are done.
static void free_before_done(weft_context* context) {
  enum { kOperations = 40 };
  float x[kOperations], y[kOperations];
  struct told told = {.calls = 0};
  for (int i = 0; i < kOperations; ++i) {
    x[i] = (float)(i + rank_of(context));
    weft_handle* handle = NULL;
    OK(weft_allreduce_start(context, &x[i], &y[i], 1, WEFT_F32, WEFT_SUM, &handle));
    OK(weft_handle_then(handle, note, &told));
    OK(weft_handle_free(handle));
  }
  OK(weft_barrier(context));
  await(&told, kOperations);
  for (int i = 0; i < kOperations; ++i) CHECK(y[i] == (float)(2 * i + 1));
}

// The context is closed while an operation is pending. The handle stays valid.
static void close_before_done(weft_context* context) {
  static float value;
  if (rank_of(context) == 1) {
    meet();
    return;
  }
  weft_handle* handle = NULL;
  struct told told = {.calls = 0};
  OK(weft_recv_start(context, &value, 1, WEFT_F32, 1, &handle));
  OK(weft_handle_then(handle, note, &told));
  INVALID(weft_handle_then(handle, NULL, &told), "callback is NULL");
  OK(weft_context_close(context));
  FAILS(weft_handle_wait(handle), WEFT_CLOSED, "closed");
  FAILS(weft_handle_wait_for(handle, 10), WEFT_CLOSED, "closed");
  await(&told, 1);
  CHECK(told.code == WEFT_CLOSED && told.rank == 0 && strstr(told.text, "closed") != NULL);
  OK(weft_handle_free(handle));
  meet();
}

// A callback may close its context.
static atomic_int closed;
static void close_in_callback(void* user, weft_code code, const char* text) {
  CHECK(code == WEFT_OK && text[0] == '\0');
  OK(weft_context_close(user));
  atomic_fetch_add(&closed, 1);
}
static void close_by_callback(weft_context* context) {
  weft_handle* handle = NULL;
  OK(weft_barrier_start(context, &handle));
  OK(weft_handle_then(handle, close_in_callback, context));
  OK(weft_handle_free(handle));
  while (atomic_load(&closed) < 2) (void)sched_yield();
  FAILS(weft_barrier(context), WEFT_CLOSED, "weft_barrier: the context was closed");
}

// A callback may wait for another operation, in every way.
static atomic_int waited;
static void wait_in_callback(void* user, weft_code code, const char* text) {
  CHECK(code == WEFT_OK && text[0] == '\0');
  weft_context* context = user;
  weft_handle* handles[2];
  float x[2] = {1, 2}, y[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    OK(weft_allreduce_start(context, &x[i], &y[i], 1, WEFT_F32, WEFT_SUM, &handles[i]));
  }
  OK(weft_handle_wait_for(handles[1], INT64_MAX));
  OK(weft_handle_wait(handles[0]));
  CHECK(y[0] == 2 && y[1] == 4);
  for (int i = 0; i < 2; ++i) OK(weft_handle_free(handles[i]));
  atomic_fetch_add(&waited, 1);
}
static void wait_by_callback(weft_context* context) {
  weft_handle* handle = NULL;
  OK(weft_barrier_start(context, &handle));
  OK(weft_handle_then(handle, wait_in_callback, context));
  OK(weft_handle_free(handle));
  while (atomic_load(&waited) < 2) (void)sched_yield();
}

int main(void) {
  bound_time(120);
  const char* const waiter[] = {"WEFT_PROGRESS", "waiter", NULL};
  CHECK(pthread_barrier_init(&gate, NULL, 2) == 0);
  run_ranks(2, NULL, wait_in_every_way);
  run_ranks(2, waiter, wait_in_every_way);
  run_ranks(2, NULL, free_before_done);
  run_ranks(2, NULL, close_before_done);
  run_ranks(2, NULL, close_by_callback);
  run_ranks(2, NULL, wait_by_callback);
  return 0;
}
