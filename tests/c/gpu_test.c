// gpu_test: GPU memory through the C API, on the fake of the driver (tests/cuda).
#include <dlfcn.h>

#include "tests/c/job.h"

static void (*fake_read)(const void* gpu, void* to, size_t bytes);
static void (*fake_write)(void* gpu, const void* from, size_t bytes);

static void load_fake(void) {
  void* const library = dlopen(WEFT_CUDA_FAKE, RTLD_NOW | RTLD_GLOBAL);
  CHECK(library != NULL);
  *(void**)&fake_read = dlsym(library, "fake_read");
  *(void**)&fake_write = dlsym(library, "fake_write");
  CHECK(fake_read != NULL && fake_write != NULL);
}

// Ranks that are threads have streams of their own, or none: the operation of one would wait for
// that of another in the same stream.
static void test_rank(weft_context* context) {
  int32_t rank = -1, size = 0;
  OK(weft_context_rank(context, &rank));
  OK(weft_context_size(context, &size));
  float* gpu = NULL;
  OK(weft_allocate_on_device(4 * sizeof(float), 1, (void**)&gpu));
  weft_memory_kind kind = WEFT_HOST_MEMORY;
  int32_t device = -1;
  OK(weft_memory_place(gpu, &kind, &device));
  CHECK(kind == WEFT_DEVICE_MEMORY && device == 1);
  const float mine[4] = {(float)rank, 1, 2, 3};
  float sums[4] = {0};
  fake_write(gpu, mine, sizeof(mine));
  const weft_stream stream = {NULL};  // the default one
  const weft_request request = {.size = sizeof(request),
                                .operation = WEFT_ALLREDUCE,
                                .type = WEFT_F32,
                                .x = gpu,
                                .x_count = 4,
                                .y = gpu,
                                .y_count = 4,
                                .op = WEFT_SUM,
                                .stream = size == 1 ? &stream : NULL};
  OK(weft_run(context, &request));
  fake_read(gpu, sums, sizeof(sums));
  CHECK(sums[0] == (float)(size * (size - 1) / 2) && sums[3] == 3 * (float)size);
  float host = 0;
  OK(weft_memory_place(&host, &kind, &device));
  CHECK(kind == WEFT_HOST_MEMORY && device == -1);
  weft_request on_host = request;
  on_host.stream = &stream;
  on_host.x = on_host.y = &host;
  on_host.x_count = on_host.y_count = 1;
  INVALID(weft_run(context, &on_host), "GPU memory");
  // A window whose tensor is there.
  weft_window* window = NULL;
  const weft_window_options zeros = {.size = sizeof(zeros), .zero_init = 1};
  OK(weft_context_win_create(context, gpu, 4, WEFT_F32, "w", &zeros, &window));
  const weft_put_options put = {.size = sizeof(put),
                                .has_self_weight = 1,
                                .self_weight = 0.5,
                                .stream = size == 1 ? &stream : NULL};
  OK(weft_window_put(window, gpu, 4, WEFT_F32, &put));
  OK(weft_context_win_fence(context));
  const weft_update_options update = {.size = sizeof(update), .reset = 1};
  OK(weft_window_update(window, &update));
  float averages[4] = {0};
  fake_read(gpu, averages, sizeof(averages));
  // Half of the sums, and the sums of two in-neighbors.
  CHECK(averages[3] == (size == 1 ? sums[3] / 2 : (sums[3] / 2 + 2 * sums[3]) / 3));
  OK(weft_window_get(window, NULL));
  OK(weft_window_free(window));
  OK(weft_context_win_free(context, "w"));
  OK(weft_deallocate_on_device(gpu, 1));
  OK(weft_deallocate_on_device(NULL, 1));
  INVALID(weft_deallocate_on_device(&host, 0), "no GPU memory");
  INVALID(weft_allocate_on_device(1, 9, (void**)&gpu), "GPU 9: there are 2");
  INVALID(weft_memory_place(&host, NULL, &device), "kind is NULL");
}

int main(void) {
  bound_time(60);
  load_fake();
  run_ranks(3, NULL, test_rank);
  run_ranks(1, NULL, test_rank);
  return 0;
}
