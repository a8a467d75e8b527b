// operations_some: operations of some ranks only.
#include "tests/c/operations.h"

// Everybody sends to the next rank, small and large tensors.
static void test_send(const struct ranks* all, size_t count) {
  const int32_t after = (all->rank + 1) % all->size;
  const int32_t before = (all->rank + all->size - 1) % all->size;
  float* x = NULL;
  OK(weft_allocate(count * sizeof(float), (void**)&x));
  float* y = calloc(count, sizeof(float));
  CHECK(y != NULL);
  fill(x, count, all->rank);
  weft_handle *sent = NULL, *received = NULL;
  OK(weft_send_start(all->context, x, count, WEFT_F32, after, &sent));
  OK(weft_recv_start(all->context, y, count, WEFT_F32, before, &received));
  OK(finish(received));
  OK(finish(sent));
  CHECK(y[0] == value_of(before, 0) && y[count - 1] == value_of(before, count - 1));
  memset(y, 0, count * sizeof(float));
  if (all->rank % 2 == 0 && after != 0) {  // in pairs, blocking
    OK(weft_send(all->context, x, count, WEFT_F32, after));
  } else if (all->rank % 2 == 1) {
    int32_t is_there = 0;
    for (long turn = 0; is_there == 0 && turn < 100000000; ++turn)
      OK(weft_has_message(all->context, before, &is_there));
    CHECK(is_there == 1);
    OK(weft_recv(all->context, y, count, WEFT_F32, before));
    CHECK(y[count - 1] == value_of(before, count - 1));
  }
  free(y);
  OK(weft_deallocate(x));
}

static void test_pairs(const struct ranks* all) {
  const int32_t peer = all->rank ^ 1;
  if (peer >= all->size) return;
  float x[kCount], y[kCount];
  fill(x, kCount, all->rank);
  const double mine = value_of(all->rank, 1), other = value_of(peer, 1);
  BOTH_WAYS(y, CHECK(is_near(y[1], 0.25 * mine + 0.75 * other)), weft_pair_average, all->context, x,
            y, kCount, WEFT_F32, peer, 0.25, 0.75);
  const weft_request halves = {.size = sizeof(halves),
                               .operation = WEFT_PAIR_AVERAGE,
                               .type = WEFT_F32,
                               .x = x,
                               .x_count = kCount,
                               .y = y,
                               .y_count = kCount,
                               .peer = peer};
  OK(weft_run(all->context, &halves));
  CHECK(is_near(y[1], (mine + other) / 2));
}

// Ranks 0 and the last one, and all others.
static void test_groups(const struct ranks* all) {
  const int is_end = all->rank == 0 || all->rank == all->size - 1;
  int32_t group[64];
  size_t length = 0;
  double sum = 0;
  for (int32_t rank = all->size - 1; rank >= 0; --rank) {
    if ((rank == 0 || rank == all->size - 1) != is_end) continue;
    group[length++] = rank;
    sum += value_of(rank, 2);
  }
  float x[kCount], y[kCount];
  fill(x, kCount, all->rank);
  BOTH_WAYS(y, CHECK(is_near(y[2], sum / (double)length)), weft_group_average, all->context, x, y,
            kCount, WEFT_F32, group, length);
}

void test_some_ranks(const struct ranks* all) {
  if (all->size > 1) {
    test_send(all, 3);
    test_send(all, 100000);
  }
  test_pairs(all);
  test_groups(all);
}
