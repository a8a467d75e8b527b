// algorithms: the parts of algorithms_test.
#pragma once

#include "tests/c/operations.h"

enum { kElements = 300 };

static inline void set(double* x, double value) {
  for (size_t i = 0; i < kElements; ++i) x[i] = value;
}
static inline int is_all(const double* x, double value) {
  for (size_t i = 0; i < kElements; ++i)
    if (!is_near(x[i], value)) return 0;
  return 1;
}
static inline void add_one(void* argument) {
  double* const x = argument;
  for (size_t i = 0; i < kElements; ++i) x[i] += 1;
}
// The mean of the ranks' numbers, and of an element of all ranks.
static inline double mean_of(const struct ranks* all) {
  return (all->size - 1) / 2.0;
}
static inline double mean_over(const struct ranks* all, double mine) {
  double mean = 0;
  OK(weft_allreduce(all->context, &mine, &mean, 1, WEFT_F64, WEFT_AVERAGE));
  return mean;
}

void test_partial_allreduce(const struct ranks* all);
void test_bundles(void);
void test_gradient_exchange(const struct ranks* all);
// Closes the context.
void test_freed_early(const struct ranks* all);
