// guest_test: Weft in somebody else's process. The host's log sink, its threads that close what
// others use, and its forks.
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "tests/c/job.h"

struct records {
  atomic_int count;
  atomic_int rank;
  atomic_int level;
};
static void keep_record(void* user, weft_log_level level, int32_t rank, const char* text) {
  struct records* records = user;
  CHECK(strlen(text) > 0);
  atomic_store(&records->rank, rank);
  atomic_store(&records->level, level);
  atomic_fetch_add(&records->count, 1);
}

// Opens the store of a job of one rank, which says at the level debug who the launcher is.
static void open_store(void) {
  weft_config* config = NULL;
  weft_store* store = NULL;
  OK(weft_config_new(&config));
  OK(weft_store_open(config, &store));
  OK(weft_store_free(store));
  OK(weft_config_free(config));
}

static void test_log(void) {
  static struct records records;
  OK(weft_log_set_sink(keep_record, &records));
  open_store();
  CHECK(atomic_load(&records.count) == 0);  // by default there are only warnings and errors
  OK(weft_log_set_level(WEFT_LOG_DEBUG, 3));
  open_store();
  CHECK(atomic_load(&records.count) > 0 && atomic_load(&records.rank) == 3);
  CHECK(atomic_load(&records.level) == WEFT_LOG_DEBUG);
  const int before = atomic_load(&records.count);
  OK(weft_log_set_level(WEFT_LOG_OFF, WEFT_NO_RANK));
  OK(weft_log_set_sink(NULL, NULL));
  open_store();
  CHECK(atomic_load(&records.count) == before);
}

// A thread waits for a message that never comes, while another one frees the context. The call ends
// with an error within its deadline, and nothing is used after it was freed.
static pthread_barrier_t gate;
static void* receive_in_vain(void* context) {
  float value = 0;
  (void)pthread_barrier_wait(&gate);
  const weft_code code = weft_recv(context, &value, 1, WEFT_F32, 1);
  CHECK(code != WEFT_OK && value == 0);
  return NULL;
}
static void free_under_a_call(weft_context* context) {
  int32_t rank = -1;
  OK(weft_context_rank(context, &rank));
  if (rank == 0) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, receive_in_vain, context) == 0);
    (void)pthread_barrier_wait(&gate);
    OK(weft_context_close(context));
    CHECK(pthread_join(thread, NULL) == 0);
  }
}

// In a child that was forked beside a living job every call is an error, and the parent's job goes
// on.
static int use_as_child(weft_context* context, weft_handle* handle, weft_graph* graph) {
  float x = 1, y = 0;
  int32_t size = 0;
  int done = 0;
  weft_handle* started = NULL;
  void* memory = NULL;
  if (weft_allreduce(context, &x, &y, 1, WEFT_F32, WEFT_SUM) != WEFT_UNAVAILABLE) return __LINE__;
  if (strstr(weft_last_error(), "forked") == NULL) return __LINE__;
  if (weft_barrier_start(context, &started) != WEFT_UNAVAILABLE || started != NULL) return __LINE__;
  if (weft_context_set_graph(context, graph, 0) != WEFT_UNAVAILABLE) return __LINE__;
  if (weft_handle_wait(handle) != WEFT_UNAVAILABLE) return __LINE__;
  if (weft_handle_wait_for(handle, 1000) != WEFT_UNAVAILABLE) return __LINE__;
  if (weft_handle_test(handle, &done) != WEFT_OK) return __LINE__;
  if (weft_allocate(64, &memory) != WEFT_UNAVAILABLE) return __LINE__;
  if (weft_graph_size(graph, &size) != WEFT_OK || size != 2) return __LINE__;  // a value
  if (weft_handle_free(handle) != WEFT_OK) return __LINE__;
  if (weft_context_free(context) != WEFT_OK) return __LINE__;
  return 0;
}
static void fork_beside_a_job(weft_context* context) {
  int32_t rank = -1;
  float x = 1, y = 0;
  OK(weft_context_rank(context, &rank));
  OK(weft_barrier(context));
  if (rank == 0) {
    weft_handle* handle = NULL;
    weft_graph* graph = NULL;
    OK(weft_graph_make("ring", 2, &graph));
    OK(weft_recv_start(context, &y, 1, WEFT_F32, 1, &handle));
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      bound_time(20);
      _exit(use_as_child(context, handle, graph) % 256);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(weft_barrier(context));
    OK(weft_handle_wait(handle));
    CHECK(y == 1);
    OK(weft_handle_free(handle));
    OK(weft_graph_free(graph));
  } else {
    OK(weft_barrier(context));
    OK(weft_send(context, &x, 1, WEFT_F32, 0));
  }
  OK(weft_barrier(context));
}

int main(void) {
  bound_time(120);
  const char* const soon[] = {"WEFT_DEADLINE_MS", "1000", "WEFT_LOG", "off", NULL};
  test_log();
  CHECK(pthread_barrier_init(&gate, NULL, 2) == 0);
  run_ranks(2, soon, free_under_a_call);
  run_ranks(2, NULL, fork_beside_a_job);
  return 0;
}
