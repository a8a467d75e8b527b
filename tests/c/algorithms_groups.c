// algorithms_groups: partial all-reduce of the C API.
#include "tests/c/algorithms.h"

static weft_partial_allreduce* create(const struct ranks* all, double* x,
                                      const weft_partial_allreduce_options* options) {
  weft_partial_allreduce* partial = NULL;
  set(x, all->rank);
  OK(weft_partial_allreduce_create(all->context, x, kElements, WEFT_F64, options, &partial));
  return partial;
}

// Each rank is in its groups, and the mean of all ranks stays.
static void test_groups(const struct ranks* all) {
  double x[kElements];
  int32_t group[64] = {0};
  size_t count = 0;
  const weft_partial_allreduce_options options = {
      .size = sizeof(options), .law = "random:2", .seed = 3};
  weft_partial_allreduce* partial = create(all, x, &options);
  OK(weft_partial_allreduce_begin(partial));
  INVALID(weft_partial_allreduce_average(partial, group, 1, &count), "group has room for 1 of");
  INVALID(weft_partial_allreduce_average(partial, group, 64, NULL), "count is NULL");
  INVALID(weft_partial_allreduce_average(partial, NULL, 64, &count), "group is NULL");
  CHECK(is_all(x, all->rank));
  for (int step = 0; step < 20 + all->rank; ++step) {  // different numbers of iterations
    OK(weft_partial_allreduce_average(partial, group, 64, &count));
    int is_in = 0;
    for (size_t i = 0; i < count; ++i) is_in |= group[i] == all->rank;
    CHECK(is_in && count <= 2);
  }
  weft_partial_allreduce_usage usage = {.size = sizeof(usage)};
  OK(weft_partial_allreduce_get_usage(partial, &usage));
  CHECK(usage.messages_sent >= 20 && usage.messages_received >= 20 && usage.successions == 0);
  OK(weft_partial_allreduce_end(partial));
  FAILS(weft_partial_allreduce_begin(partial), WEFT_CLOSED, "has ended");
  CHECK(is_near(mean_over(all, x[5]), mean_of(all)));
  uint64_t groups = 0;
  OK(weft_allreduce(all->context, &usage.groups, &groups, 1, WEFT_U64, WEFT_SUM));
  CHECK(groups > 0);
  OK(weft_partial_allreduce_free(partial));
  INVALID(weft_partial_allreduce_begin(partial), "partial is no weft_partial_allreduce");
}

// A schedule without a generator, in which every second call averages.
static void test_sections(const struct ranks* all) {
  double x[kElements];
  size_t count = 9;
  const weft_partial_allreduce_options options = {
      .size = sizeof(options), .name = "scheduled", .law = "static", .section = 2};
  weft_partial_allreduce* partial = create(all, x, &options);
  for (int step = 1; step <= 6; ++step) {
    OK(weft_partial_allreduce_average(partial, NULL, 0, &count));
    CHECK((count > 0) == (step % 2 == 0));
  }
  OK(weft_partial_allreduce_average(partial, NULL, 0, NULL));
  OK(weft_partial_allreduce_end(partial));
  OK(weft_partial_allreduce_free(partial));
}

static void test_bad_options(const struct ranks* all) {
  double x[kElements];
  weft_partial_allreduce* partial = NULL;
  weft_partial_allreduce_options options = {.size = sizeof(options), .law = "eager"};
#define REFUSED(code, type, text)                                                                  \
  FAILS(weft_partial_allreduce_create(all->context, x, kElements, type, &options, &partial), code, \
        text);                                                                                     \
  CHECK(partial == NULL)
  REFUSED(WEFT_INVALID_ARGUMENT, WEFT_F64, "eager");
  options.law = "smart";
  options.threshold = 1;
  REFUSED(WEFT_INVALID_ARGUMENT, WEFT_F64, "threshold");
  options.threshold = 0;
  options.section = -1;
  REFUSED(WEFT_INVALID_ARGUMENT, WEFT_F64, "a section of -1 iterations");
  options.section = 0;
  REFUSED(WEFT_INVALID_ARGUMENT, WEFT_I32, "a model of i32 cannot be averaged");
  REFUSED(WEFT_INVALID_ARGUMENT, 99, "type is 99");
  options.seed = all->rank == 1 ? 7 : 8;
  if (all->size > 1) REFUSED(WEFT_MISMATCH, WEFT_F64, "seed 7, 300 elements of f64");
#undef REFUSED
}

void test_partial_allreduce(const struct ranks* all) {
  test_groups(all);
  test_sections(all);
  test_bad_options(all);
}
