// operations: the parts of operations_test.
#pragma once

#include "tests/c/check.h"

// Who this rank is, and the values that ranks give: rank r gives value_of(r, i) as element i.
struct ranks {
  weft_context* context;
  int32_t rank;
  int32_t size;
};
static inline struct ranks ranks_of(weft_context* context) {
  struct ranks all = {.context = context};
  OK(weft_context_rank(context, &all.rank));
  OK(weft_context_size(context, &all.size));
  return all;
}

enum { kCount = 5, kMostElements = 512 };
static inline float value_of(int32_t rank, size_t i) {
  return (float)(4 * (rank + 1)) + (float)i;
}
static inline void fill(float* x, size_t count, int32_t rank) {
  for (size_t i = 0; i < count; ++i) x[i] = value_of(rank, i);
}

static inline int is_near(double a, double b) {
  return a - b < 1e-4 && b - a < 1e-4;
}

// Waits for a started operation and frees its handle.
static inline weft_code finish(weft_handle* handle) {
  const weft_code code = weft_handle_wait(handle);
  OK(weft_handle_free(handle));
  return code;
}

// The operation does what `check` expects, as a blocking call and when it is started. The array y
// is cleared before each.
#define BOTH_WAYS(y, check, operation, ...)        \
  do {                                             \
    memset((y), 0, sizeof(y));                     \
    OK(operation(__VA_ARGS__));                    \
    check;                                         \
    memset((y), 0, sizeof(y));                     \
    weft_handle* started_ = NULL;                  \
    OK(operation##_start(__VA_ARGS__, &started_)); \
    OK(finish(started_));                          \
    check;                                         \
  } while (0)

void test_reductions(const struct ranks* all);
void test_neighbors(const struct ranks* all);
void test_parts(const struct ranks* all);
void test_some_ranks(const struct ranks* all);
void test_splits_and_facts(const struct ranks* all);
