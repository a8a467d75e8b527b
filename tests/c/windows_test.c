// windows_test: windows of the C API, and bad calls of them. The ranks are those of the launcher
// (`weft run -n 4 -- windows_test`), or with an argument that many threads of this program.
#include "tests/c/job.h"
#include "tests/c/operations.h"

enum { kElements = 1000 };

// A window of a ring on which each rank writes to the next one.
struct ring {
  weft_window* window;
  double* x;
  int32_t before, after;
};

static void set_ring(const struct ranks* all) {
  weft_edge edges[64];
  double self[64];
  CHECK(all->size > 1 && all->size <= 64);
  for (int32_t rank = 0; rank < all->size; ++rank) {
    edges[rank] = (weft_edge){.from = rank, .to = (rank + 1) % all->size, .weight = 0.5};
    self[rank] = 0.5;
  }
  weft_graph* graph = NULL;
  OK(weft_graph_from_edges(all->size, edges, (size_t)all->size, self, "ring", &graph));
  OK(weft_context_set_graph(all->context, graph, 0));
  OK(weft_graph_free(graph));
}

static void fill_with(double* x, double value) {
  for (size_t i = 0; i < kElements; ++i) x[i] = value;
}
static int holds(const double* x, double value) {
  for (size_t i = 0; i < kElements; ++i)
    if (!is_near(x[i], value)) return 0;
  return 1;
}

// `shared`: the tensor is in Weft's memory.
static struct ring make_ring(const struct ranks* all, const char* name, int shared, double value) {
  struct ring made = {.before = (all->rank + all->size - 1) % all->size,
                      .after = (all->rank + 1) % all->size};
  const weft_window_options zeros = {.size = sizeof(zeros), .zero_init = 1};
  void* memory = NULL;
  if (shared) {
    OK(weft_allocate(kElements * sizeof(double), &memory));
  } else {
    memory = malloc(kElements * sizeof(double));
  }
  made.x = memory;
  fill_with(made.x, value);
  OK(weft_context_win_create(all->context, made.x, kElements, WEFT_F64, name, &zeros,
                             &made.window));
  return made;
}
static void end_ring(const struct ranks* all, const char* name, int shared, struct ring* ring) {
  OK(weft_context_win_free(all->context, name));
  INVALID(weft_window_update(ring->window, NULL), "freed");
  OK(weft_window_free(ring->window));
  INVALID(weft_window_update(ring->window, NULL),
          "weft_window_update: window is no weft_window: it was freed");
  if (shared) {
    OK(weft_deallocate(ring->x));
  } else {
    free(ring->x);
  }
}

static void test_facts(const struct ranks* all) {
  struct ring ring = make_ring(all, "facts", 1, all->rank);
  char* name = NULL;
  void* tensor = NULL;
  size_t count = 0;
  weft_data_type type = -1;
  int32_t ranks[4] = {-1};
  OK(weft_window_name(ring.window, &name));
  CHECK(strcmp(name, "facts") == 0);
  weft_string_free(name);
  OK(weft_window_tensor(ring.window, &tensor, &count, &type));
  CHECK(tensor == ring.x && count == kElements && type == WEFT_F64);
  OK(weft_window_in_neighbors(ring.window, NULL, 0, &count));
  CHECK(count == 1);
  OK(weft_window_in_neighbors(ring.window, ranks, 4, &count));
  CHECK(count == 1 && ranks[0] == ring.before);
  OK(weft_window_out_neighbors(ring.window, ranks, 4, &count));
  CHECK(count == 1 && ranks[0] == ring.after);
  OK(weft_context_window_count(all->context, &count));
  CHECK(count == 1);
  OK(weft_context_window_name(all->context, 0, &name));
  CHECK(strcmp(name, "facts") == 0);
  weft_string_free(name);
  INVALID(weft_context_window_name(all->context, 1, &name), "index is 1, and there are 1 windows");
  CHECK(name == NULL);
  weft_window* same = NULL;
  OK(weft_context_window(all->context, "facts", &same));
  OK(weft_window_tensor(same, &tensor, &count, &type));
  CHECK(same != ring.window && tensor == ring.x);
  OK(weft_window_free(same));
  end_ring(all, "facts", 1, &ring);
  OK(weft_context_window_count(all->context, &count));
  CHECK(count == 0);
}

static void test_put_and_update(const struct ranks* all, int shared) {
  struct ring ring = make_ring(all, "put", shared, all->rank);
  const double mean = (all->rank + ring.before) / 2.0;
  uint64_t versions[2] = {99};
  size_t count = 0;
  OK(weft_window_put(ring.window, ring.x, kElements, WEFT_F64, NULL));
  OK(weft_context_win_fence(all->context));
  OK(weft_window_versions(ring.window, versions, 2, &count));
  CHECK(count == 1 && versions[0] == 1);
  double clone[kElements];
  const weft_update_options to_clone = {.size = sizeof(to_clone), .clone = clone};
  OK(weft_window_update(ring.window, &to_clone));
  CHECK(holds(clone, mean) && holds(ring.x, all->rank));
  OK(weft_window_update(ring.window, NULL));
  CHECK(holds(ring.x, mean));
  OK(weft_window_versions(ring.window, versions, 2, &count));
  CHECK(versions[0] == 0);
  OK(weft_barrier(all->context));

  const weft_peer to = {ring.after, 3}, from = {ring.before, 2};
  const weft_put_options put = {.size = sizeof(put),
                                .has_self_weight = 1,
                                .require_mutex = 1,
                                .self_weight = 0.5,
                                .destinations = &to,
                                .destination_count = 1,
                                .has_signal = 1,
                                .signal = 7};
  double y[kElements];
  fill_with(y, 10);
  weft_handle* handle = NULL;
  OK(weft_window_put_start(ring.window, y, kElements, WEFT_F64, &put, &handle));
  OK(finish(handle));
  CHECK(holds(y, 5));
  OK(weft_window_wait_signal(ring.window, 7, 1, -1));
  uint64_t raised = 0;
  OK(weft_window_signal(ring.window, 7, &raised));
  CHECK(raised == 1);
  FAILS(weft_window_wait_signal(ring.window, 7, 2, 0), WEFT_TIMED_OUT, "signal 7 was raised 1");
  const weft_update_options update = {.size = sizeof(update),
                                      .has_self_weight = 1,
                                      .reset = 1,
                                      .require_mutex = 1,
                                      .self_weight = 0,
                                      .sources = &from,
                                      .source_count = 1};
  OK(weft_window_update(ring.window, &update));
  CHECK(holds(ring.x, 60));
  OK(weft_window_update_then_collect(ring.window, 0));  // the slot was reset
  CHECK(holds(ring.x, 60));
  end_ring(all, "put", shared, &ring);
}

static void test_get(const struct ranks* all, int shared) {
  struct ring ring = make_ring(all, "get", shared, all->rank);
  const weft_peer twice = {ring.before, 2};
  const weft_get_options get = {
      .size = sizeof(get), .require_mutex = 1, .sources = &twice, .source_count = 1};
  OK(weft_barrier(all->context));
  OK(weft_window_get(ring.window, &get));
  OK(weft_barrier(all->context));
  OK(weft_window_update_then_collect(ring.window, 1));
  CHECK(holds(ring.x, all->rank + 2 * ring.before));
  OK(weft_barrier(all->context));
  fill_with(ring.x, all->rank);
  OK(weft_barrier(all->context));
  weft_handle* handle = NULL;
  OK(weft_window_get_start(ring.window, NULL, &handle));
  OK(finish(handle));
  OK(weft_barrier(all->context));
  OK(weft_window_update_then_collect(ring.window, 0));
  CHECK(holds(ring.x, all->rank + ring.before));
  end_ring(all, "get", shared, &ring);
}

// Push-sum: x / p goes to the mean, and the sum of p is the number of ranks.
static void test_push_sum(const struct ranks* all) {
  struct ring ring = make_ring(all, "push", 1, all->rank);
  const weft_peer half = {ring.after, 0.5};
  const weft_put_options put = {.size = sizeof(put),
                                .has_self_weight = 1,
                                .self_weight = 0.5,
                                .destinations = &half,
                                .destination_count = 1};
  double p = 0, sum = 0;
  OK(weft_window_set_associated_p(ring.window, 1));
  for (int step = 0; step < 60; ++step) {
    weft_handle* handle = NULL;
    OK(weft_window_accumulate(ring.window, ring.x, kElements, WEFT_F64, &put));
    OK(weft_window_accumulate_start(ring.window, ring.x, kElements, WEFT_F64, &put, &handle));
    OK(weft_window_flush(ring.window));
    OK(finish(handle));
    OK(weft_context_win_fence(all->context));
    OK(weft_window_update_then_collect(ring.window, 0));
  }
  OK(weft_window_associated_p(ring.window, &p));
  CHECK(holds(ring.x, p * (all->size - 1) / 2.0));
  OK(weft_allreduce(all->context, &p, &sum, 1, WEFT_F64, WEFT_SUM));
  CHECK(is_near(sum, all->size));
  end_ring(all, "push", 1, &ring);
}

static void test_raw_access(const struct ranks* all, int shared) {
  struct ring ring = make_ring(all, "raw", shared, 0);
  double y[4] = {all->rank, 20, 30, 40};
  const weft_page pages[] = {{0, 8}, {24, 0}};  // element 0 goes to 1, element 3 to 0
  OK(weft_window_write(ring.window, ring.after, y, 4, WEFT_F64, pages, 2, 8, 3));
  OK(weft_window_wait_signal(ring.window, 3, 1, 20000));
  CHECK(ring.x[0] == 40 && ring.x[1] == ring.before && ring.x[2] == 0);
  OK(weft_barrier(all->context));
  weft_handle* handle = NULL;
  OK(weft_window_wait_signal_start(ring.window, 9, 1, 20000, &handle));
  OK(weft_window_write(ring.window, ring.after, y, 4, WEFT_F64, pages, 0, 8, 9));
  OK(weft_handle_wait(handle));
  weft_handle_free(handle);
  OK(weft_window_write_start(ring.window, ring.after, y, 4, WEFT_F64, pages, 1, 16, WEFT_NO_SIGNAL,
                             &handle));
  OK(finish(handle));
  OK(weft_barrier(all->context));
  CHECK(ring.x[1] == ring.before && ring.x[2] == 20);
  OK(weft_barrier(all->context));
  weft_prepared* put = NULL;
  OK(weft_window_prepare_write(ring.window, ring.after, y, 4, WEFT_F64, pages, 1, 8, 4, &put));
  for (unsigned time = 1; time <= 3; ++time) {
    y[0] = 10 * time + all->rank;
    OK(weft_prepared_run(put));
    OK(weft_window_wait_signal(ring.window, 4, time, 20000));
    CHECK(ring.x[1] == 10 * time + ring.before);
    OK(weft_barrier(all->context));
  }
  OK(weft_prepared_free(put));
  ring.x[1] = ring.before;
  OK(weft_window_prepare_put(ring.window, ring.x, kElements, WEFT_F64, NULL, &put));
  OK(weft_prepared_run(put));
  OK(weft_prepared_free(put));
  OK(weft_window_prepare_accumulate(ring.window, ring.x, kElements, WEFT_F64, NULL, &put));
  OK(weft_prepared_run(put));
  OK(weft_prepared_free(put));
  INVALID(weft_window_prepare_put(ring.window, ring.x, 1, WEFT_F64, NULL, &put), "elements");
  OK(weft_barrier(all->context));
  double found = 0;
  OK(weft_window_read(ring.window, ring.before, &found, 1, WEFT_F64, 8));
  CHECK(found == (ring.before + all->size - 1) % all->size);
  OK(weft_barrier(all->context));

  // All ranks add 1 to a number of the rank before, one at a time.
  const int32_t owner[] = {ring.before};
  OK(weft_window_lock(ring.window, owner, 1));
  INVALID(weft_window_lock(ring.window, owner, 1), "locked by this rank already");
  INVALID(weft_context_win_free(all->context, "raw"), "holds mutexes");
  OK(weft_window_unlock(ring.window));
  end_ring(all, "raw", shared, &ring);
}

static void test_bad_windows(const struct ranks* all) {
  double x[4] = {0};
  weft_window* window = (weft_window*)&window;
  weft_context* context = all->context;
  weft_window_options options = {.size = sizeof(options), .zero_init = 2};
  INVALID(weft_context_win_create(context, x, 4, WEFT_F64, "bad", &options, &window),
          "weft_context_win_create: options->zero_init is 2");
  CHECK(window == NULL);
  options = (weft_window_options){.size = sizeof(options), .reserved = 1};
  INVALID(weft_context_win_create(context, x, 4, WEFT_F64, "bad", &options, &window),
          "options->reserved must be 0");
  options.size = 3;
  INVALID(weft_context_win_create(context, x, 4, WEFT_F64, "bad", &options, &window),
          "options->size is 3");
  INVALID(weft_context_win_create(context, x, 4, 55, "bad", NULL, &window), "type is 55");
  INVALID(weft_context_win_create(context, x, 4, WEFT_F64, NULL, NULL, &window), "name is NULL");
  INVALID(weft_context_win_create(context, x, 4, WEFT_F64, "bad", NULL, NULL), "window is NULL");
  INVALID(weft_context_win_create(NULL, x, 4, WEFT_F64, "bad", NULL, &window), "context is NULL");
  INVALID(weft_context_win_create(context, NULL, 4, WEFT_F64, "bad", NULL, &window), "null");
  INVALID(weft_context_win_create(context, x, (size_t)-1, WEFT_F64, "bad", NULL, &window),
          "memory");
  INVALID(weft_context_win_create(context, x, 4, WEFT_F64, "", NULL, &window), "name");
  INVALID(weft_context_window(context, "none", &window), "no window \"none\"");
  INVALID(weft_context_window(context, NULL, &window), "name is NULL");
  INVALID(weft_context_win_free(context, "none"), "no window of that name");
  INVALID(weft_context_window_count(context, NULL), "count is NULL");
  INVALID(weft_window_put(NULL, x, 4, WEFT_F64, NULL), "weft_window_put: window is NULL");
  INVALID(weft_window_put((weft_window*)context, x, 4, WEFT_F64, NULL), "is no weft_window");
  INVALID(weft_barrier((weft_context*)window), "context is NULL");
  OK(weft_window_free(NULL));
}

static void test_bad_calls(const struct ranks* all) {
  struct ring ring = make_ring(all, "calls", 1, 1);
  weft_window* window = ring.window;
  double* x = ring.x;
  weft_handle* handle = (weft_handle*)&handle;
  INVALID(weft_window_put_start(window, x, 3, WEFT_F64, NULL, &handle), "1000 elements of f64");
  CHECK(handle == NULL);
  INVALID(weft_window_put_start(window, x, kElements, WEFT_F64, NULL, NULL), "handle is NULL");
  INVALID(weft_window_put(window, x, kElements, WEFT_F32, NULL), "of f32");
  INVALID(weft_window_put(window, x, kElements, -1, NULL), "type is -1");
  INVALID(weft_window_put(window, NULL, kElements, WEFT_F64, NULL), "null");
  weft_put_options put = {.size = sizeof(put), .self_weight = 2};
  INVALID(weft_window_put(window, x, kElements, WEFT_F64, &put), "how->has_self_weight is 0");
  put = (weft_put_options){.size = sizeof(put), .signal = 2};
  INVALID(weft_window_put(window, x, kElements, WEFT_F64, &put), "how->has_signal is 0");
  put = (weft_put_options){.size = sizeof(put), .compression = WEFT_COMPRESSION_SKETCH};
  INVALID(weft_window_put(window, x, kElements, WEFT_F64, &put), "compression (sketch) takes f32");
  put.compression = 99;
  INVALID(weft_window_put(window, x, kElements, WEFT_F64, &put), "how->compression is 99");
  put = (weft_put_options){.size = sizeof(put), .signal = 2};
  put.has_signal = 1;
  put.signal = WEFT_WINDOW_SIGNALS;
  INVALID(weft_window_put(window, x, kElements, WEFT_F64, &put), "how->signal is 16");
  put = (weft_put_options){.size = sizeof(put), .destination_count = 1};
  INVALID(weft_window_accumulate(window, x, kElements, WEFT_F64, &put),
          "how->destinations is NULL");
  put.destinations = &(weft_peer){all->rank, 1};
  INVALID(weft_window_accumulate(window, x, kElements, WEFT_F64, &put), "no out-neighbor");
  put.require_mutex = 7;
  INVALID(weft_window_accumulate(window, x, kElements, WEFT_F64, &put), "how->require_mutex is 7");
  weft_get_options get = {.size = sizeof(get), .reserved = 1};
  INVALID(weft_window_get(window, &get), "how->reserved must be 0");
  get = (weft_get_options){.size = sizeof(get), .sources = &(weft_peer){all->rank, 1}};
  get.source_count = 1;
  INVALID(weft_window_get_start(window, &get, &handle), "no in-neighbor");
  weft_update_options update = {.size = sizeof(update), .has_self_weight = 1};
  INVALID(weft_window_update(window, &update), "or neither");
  update = (weft_update_options){.size = sizeof(update), .clone = x};
  INVALID(weft_window_update(window, &update), "clone");
  update = (weft_update_options){.size = sizeof(update), .reset = -1};
  INVALID(weft_window_update(window, &update), "how->reset is -1");
  const weft_page outside = {0, kElements * sizeof(double)}, page = {0, 0};
  INVALID(weft_window_write(window, ring.after, x, 1, WEFT_F64, &outside, 1, 8, WEFT_NO_SIGNAL),
          "does not fit");
  INVALID(weft_window_write(window, ring.after, NULL, 1, WEFT_F64, &page, 1, 8, WEFT_NO_SIGNAL),
          "x is NULL");
  INVALID(weft_window_write(window, ring.after, x, 1, WEFT_F64, NULL, 1, 8, WEFT_NO_SIGNAL),
          "pages is NULL");
  INVALID(weft_window_write(window, all->rank, x, 1, WEFT_F64, &page, 1, 8, WEFT_NO_SIGNAL),
          "no out-neighbor");
  INVALID(weft_window_write(window, ring.after, x, 1, WEFT_F64, &page, 1, 8, -2), "not -2");
  INVALID(weft_window_read(window, ring.before, x, (size_t)1 << 61, WEFT_F64, 0), "no memory");
  INVALID(weft_window_read(window, ring.before, x, 1, WEFT_F64, 7993), "not inside");
  INVALID(weft_window_read(window, ring.before, NULL, 1, WEFT_F64, 0), "y is NULL");
  INVALID(weft_window_lock(window, NULL, 2), "ranks is NULL");
  INVALID(weft_window_signal(window, 16, &(uint64_t){0}), "not 16");
  INVALID(weft_window_wait_signal(window, -1, 1, 0), "not -1");
  INVALID(weft_window_versions(window, &(uint64_t){0}, 0, &(size_t){0}), "has room for 0 of 1");
  INVALID(weft_window_in_neighbors(window, NULL, 1, &(size_t){0}), "ranks is NULL");
  INVALID(weft_window_tensor(window, NULL, NULL, NULL), "tensor is NULL");
  INVALID(weft_window_associated_p(window, NULL), "p is NULL");
  weft_graph* graph = NULL;
  OK(weft_context_graph(all->context, &graph));
  INVALID(weft_context_set_graph(all->context, graph, 0), "window");
  OK(weft_graph_free(graph));
  OK(weft_barrier(all->context));
  CHECK(holds(x, 1));
  end_ring(all, "calls", 1, &ring);
}

// The context ends with a window in it; the handle stays valid.
static void end_with_a_window(const struct ranks* all) {
  static double x[16];
  double y[4] = {0};
  weft_window *first = NULL, *second = NULL;
  OK(weft_context_win_create(all->context, &x[all->rank], 1, WEFT_F64, "a", NULL, &first));
  OK(weft_context_win_create(all->context, y, 4, WEFT_F64, "b", NULL, &second));
  OK(weft_context_win_free_all(all->context));
  INVALID(weft_window_get(second, NULL), "freed");
  OK(weft_window_free(second));
  OK(weft_window_free(first));
  OK(weft_context_win_create(all->context, &x[all->rank], 1, WEFT_F64, "a", NULL, &first));
  OK(weft_barrier(all->context));
  OK(weft_context_close(all->context));
  FAILS(weft_window_get(first, NULL), WEFT_CLOSED, "closed");
  FAILS(weft_window_put(first, &x[all->rank], 1, WEFT_F64, NULL), WEFT_CLOSED, "closed");
  OK(weft_window_free(first));
}

static void test_all(weft_context* context) {
  const struct ranks all = ranks_of(context);
  set_ring(&all);
  test_facts(&all);
  test_put_and_update(&all, 1);
  test_put_and_update(&all, 0);
  test_get(&all, 1);
  test_get(&all, 0);
  test_push_sum(&all);
  test_raw_access(&all, 1);
  test_raw_access(&all, 0);
  test_bad_windows(&all);
  test_bad_calls(&all);
  end_with_a_window(&all);
}

int main(int argc, char** argv) {
  return run_test(argc, argv, test_all);
}
